package status_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// recorder records the requests of a client.
type recorder struct {
	http.RoundTripper
	mu       sync.Mutex
	requests []string
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.requests = append(r.requests, request.Method+" "+request.URL.Path)
	r.mu.Unlock()
	return r.RoundTripper.RoundTrip(request)
}

// since returns the requests since the last call, and how many of them list or read objects of the ring's kinds.
func (r *recorder) since() (requests []string, objects int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests, r.requests = r.requests, nil
	for _, request := range requests {
		if strings.HasSuffix(request, "/configmaps") || strings.HasSuffix(request, "/secrets") {
			objects++
		}
	}
	return requests, objects
}

func publishes(counts map[string]int) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) {
		content, err := json.Marshal(counts)
		if err != nil {
			panic(err)
		}
		l.Annotations[shardingv1alpha1.AnnotationObjects] = string(content)
	}
}

// TestStatusListsNoObjects has 1,000 objects. Without Count, a report needs a few requests, and none that lists them.
func TestStatusListsNoObjects(t *testing.T) {
	f := setUp(t, rig.Private(t, rig.Options{CRDs: []string{"config/crds"}}))
	f.declare()
	f.join("a", publishes(map[string]int{"configmaps": 1000, "secrets": 0}))
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("object-%d", i))
	}
	f.create("a", names...)
	requests := &recorder{}
	config := rest.CopyConfig(f.Config)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		requests.RoundTripper = next
		return requests
	})
	reader := f.reader(config)
	read := func(query status.Query) *status.Report {
		report, err := reader.Rings(t.Context(), query)
		f.Expect(err).NotTo(HaveOccurred())
		return report
	}
	for _, command := range []string{"status", "one interval of status --watch"} {
		report := read(status.Query{})
		all, objects := requests.since()
		t.Logf("%s: %d requests, %d of them for objects: %v", command, len(all), objects, all)
		f.Expect(objects).To(BeZero())
		f.Expect(len(all)).To(BeNumerically("<=", 5))
		f.Expect(report.Counted).To(BeFalse())
		f.Expect(*report.Rings[0].Objects).To(Equal(1000))
		f.Expect(report.Rings[0].Total).To(BeNil())
	}
	for _, command := range []string{"status --count", "one interval of status --count --watch"} {
		report := read(status.Query{Count: true})
		all, objects := requests.since()
		t.Logf("%s: %d requests, %d of them for objects", command, len(all), objects)
		f.Expect(objects).To(BeNumerically(">=", 3), "two pages of ConfigMaps, and the Secrets")
		f.Expect(report.Counted).To(BeTrue())
		f.Expect(report.Rings[0].Total.Objects).To(Equal(1000))
	}
}

// TestExplainShowsEvents shows the newest events of the object first, then those of its ring and of its shard.
func TestExplainShowsEvents(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.declare()
	lease := f.join("a")
	f.create("a", "object")
	object := &corev1.ConfigMap{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Namespace: f.Namespace, Name: "object"}, object)).To(Succeed())
	record := func(namespace, name string, about corev1.ObjectReference, minute int) {
		f.Expect(f.Client.Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
			InvolvedObject: about, Type: corev1.EventTypeNormal, Reason: "Reason", Message: name,
			LastTimestamp: metav1.NewTime(object.CreationTimestamp.Add(-time.Duration(60-minute) * time.Minute)),
		})).To(Succeed())
	}
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: f.Namespace, Name: "object", UID: object.UID}
	for i := range 12 {
		record(f.Namespace, fmt.Sprintf("of-object-%d", i), about, i)
	}
	about.UID = "earlier"
	record(f.Namespace, "of-earlier-object", about, 30)
	record(f.Namespace, "of-lease", corev1.ObjectReference{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: f.Namespace, Name: "a", UID: lease.UID,
	}, 59)
	record("default", f.name, corev1.ObjectReference{APIVersion: "sharding.timebertt.dev/v1alpha1", Kind: "ControllerRing", Name: f.name}, 50)

	report, err := f.reader(f.Config).Objects(t.Context(), status.Query{Rings: []string{f.name}, Namespace: f.Namespace}, []status.Name{{Type: "cm", Name: "object"}})
	f.Expect(err).NotTo(HaveOccurred())
	var messages []string
	for _, event := range report.Objects[0].Events {
		messages = append(messages, event.Message)
	}
	f.Expect(messages).To(HaveLen(12))
	f.Expect(messages[0]).To(Equal("of-object-11"))
	f.Expect(messages[9]).To(Equal("of-object-2"))
	f.Expect(messages[10:]).To(Equal([]string{f.name, "of-lease"}))
}
