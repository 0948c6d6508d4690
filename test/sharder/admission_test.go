package sharder_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// calls counts the calls of rings' webhooks by the API server, and their results.
type calls struct{ Called, FailedOpen, ConditionErrors int }

// calls reads the metrics of the API server. The webhooks of all rings have the same name.
func (f *fixture) calls() calls {
	f.t.Helper()
	content, err := f.Clientset.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	f.Expect(err).NotTo(HaveOccurred())
	var found calls
	for line := range strings.Lines(string(content)) {
		name, labels, _ := strings.Cut(line, "{")
		labels, value, _ := strings.Cut(labels, "} ")
		if !strings.Contains(labels, `name="`+shardingv1alpha1.WebhookName+`"`) {
			continue
		}
		count := map[string]*int{
			"apiserver_admission_webhook_admission_duration_seconds_count": &found.Called,
			"apiserver_admission_webhook_fail_open_count":                  &found.FailedOpen,
			"apiserver_admission_match_condition_evaluation_errors_total":  &found.ConditionErrors,
		}[name]
		if count == nil {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		f.Expect(err).NotTo(HaveOccurred())
		*count += int(n)
	}
	return found
}

// during returns the calls during a function.
func (f *fixture) during(do func()) calls {
	f.t.Helper()
	before := f.calls()
	do()
	after := f.calls()
	return calls{after.Called - before.Called, after.FailedOpen - before.FailedOpen, after.ConditionErrors - before.ConditionErrors}
}

func timed(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// owner returns a reference to an object, which need not exist.
func owner(apiVersion, kind string, controller *bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "42", Controller: controller}
}

// TestOnlyUnassignedObjectsOfTheRingCauseCalls counts the calls of the webhook.
func TestOnlyUnassignedObjectsOfTheRingCauseCalls(t *testing.T) {
	f := setUp(t)
	f.start("sharder-0", ringRole)
	f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	// Objects that were created before the API server knew the webhook are assigned later, which is also a call.
	f.ownedBy(f.admits(), "a")

	yes, no := true, false
	created := map[string]client.Object{}
	for name, test := range map[string]struct {
		owners []metav1.OwnerReference
		want   int
	}{
		"child":               {[]metav1.OwnerReference{owner("v1", "ConfigMap", &yes)}, 1},
		"child with owners":   {[]metav1.OwnerReference{owner("v1", "Pod", nil), owner("v1", "ConfigMap", &yes)}, 1},
		"unowned":             {nil, 0},
		"not controlled":      {[]metav1.OwnerReference{owner("v1", "ConfigMap", nil)}, 0},
		"expressly not":       {[]metav1.OwnerReference{owner("v1", "ConfigMap", &no)}, 0},
		"of another kind":     {[]metav1.OwnerReference{owner("v1", "Pod", &yes)}, 0},
		"of another group":    {[]metav1.OwnerReference{owner("example.com/v1", "ConfigMap", &yes)}, 0},
		"controlled by other": {[]metav1.OwnerReference{owner("v1", "ConfigMap", nil), owner("v1", "Pod", &yes)}, 0},
	} {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: strings.ReplaceAll(name, " ", "-"), OwnerReferences: test.owners}}
		got := f.during(func() { f.Expect(f.Client.Create(t.Context(), object)).To(Succeed()) })
		f.Expect(got).To(Equal(calls{Called: test.want}), "creating a Secret that is "+name)
		if _, assigned := object.Labels[shardingv1alpha1.LabelShard(f.ring.Name)]; assigned != (test.want > 0) {
			t.Errorf("%s: the labels are %v", name, object.Labels)
		}
		created[name] = object
	}
	main := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "main"}}
	f.Expect(f.during(func() { f.Expect(f.Client.Create(t.Context(), main)).To(Succeed()) })).To(Equal(calls{Called: 1}))
	created["main"] = main

	t.Log("Updates of assigned and foreign objects")
	f.Expect(f.during(func() {
		for _, object := range created {
			before := object.DeepCopyObject().(client.Object)
			object.SetAnnotations(map[string]string{"changed": "true"})
			f.Expect(f.Client.Patch(t.Context(), object, client.MergeFrom(before))).To(Succeed())
			f.Expect(f.Client.Update(t.Context(), object)).To(Succeed())
		}
	})).To(Equal(calls{}))
}

// TestWebhookSendsNoWarnings for objects in normal states, which their users cannot change.
func TestWebhookSendsNoWarnings(t *testing.T) {
	f := setUp(t)
	f.start("sharder-0", ringRole)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonNoShards)
	recorded := &warnings{}
	config := rest.CopyConfig(f.Config)
	config.WarningHandler = recorded
	user, err := client.New(config, client.Options{})
	f.Expect(err).NotTo(HaveOccurred())
	create := func() {
		f.Expect(user.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, GenerateName: "generated-"}})).To(Succeed())
		f.Expect(user.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: fmt.Sprintf("named-%d", time.Now().UnixNano()),
		}})).To(Succeed())
	}
	f.Eventually(func() int { return f.during(create).Called }).Should(Equal(2), "the webhook is called")
	f.Expect(recorded.take()).To(BeEmpty(), "without shards")
	f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	create()
	f.Expect(recorded.take()).To(BeEmpty(), "with a shard")
}

// TestHungSharderDelaysOnlyItsRing pauses the sharder of rings with different main resources and ConfigMaps as their
// children. A request waits only for the ring of its object.
func TestHungSharderDelaysOnlyItsRing(t *testing.T) {
	kinds := map[string]shardingv1alpha1.GroupResource{
		"Service": {Resource: "services"}, "ServiceAccount": {Resource: "serviceaccounts"},
		"Deployment": {Group: "apps", Resource: "deployments"}, "StatefulSet": {Group: "apps", Resource: "statefulsets"},
		"DaemonSet": {Group: "apps", Resource: "daemonsets"}, "ReplicaSet": {Group: "apps", Resource: "replicasets"},
		"Job": {Group: "batch", Resource: "jobs"}, "CronJob": {Group: "batch", Resource: "cronjobs"},
	}
	f := setUp(t, func(ring *shardingv1alpha1.ControllerRing) { ring.Spec.Resources = nil })
	for kind, resource := range kinds {
		ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace + "-" + strings.ToLower(kind)}, Spec: f.ring.Spec}
		ring.Spec.Resources = []shardingv1alpha1.RingResource{{
			GroupResource: resource, ControlledResources: []shardingv1alpha1.GroupResource{{Resource: "configmaps"}},
		}}
		f.Expect(f.Client.Create(t.Context(), ring)).To(Succeed())
		t.Cleanup(func() { _ = f.Client.Delete(context.Background(), ring) })
	}
	r := f.start("sharder-0", "test/sharder/testdata/workloads-role.yaml")
	yes := true
	create := func(kind string) func() {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, GenerateName: "created-"}}
		if kind != "" {
			apiVersion := "v1"
			if group := kinds[kind].Group; group != "" {
				apiVersion = group + "/v1"
			}
			object.OwnerReferences = []metav1.OwnerReference{owner(apiVersion, kind, &yes)}
		}
		return func() { f.Expect(f.Client.Create(t.Context(), object.DeepCopy())).To(Succeed()) }
	}
	for kind := range kinds { // the API server has read all configurations
		f.Eventually(func() calls { return f.during(create(kind)) }).Should(Equal(calls{Called: 1}), kind)
	}

	f.Expect(r.Pause()).To(Succeed())
	defer func() { _ = r.Resume() }()
	f.Expect(f.during(create(""))).To(Equal(calls{}), "no webhook is called for an object without a controller")
	for kind := range kinds {
		var took time.Duration
		f.Expect(f.during(func() { took = timed(create(kind)) })).To(Equal(calls{Called: 1, FailedOpen: 1}), kind)
		f.Expect(took).To(BeNumerically("<", oneTimeout), kind)
	}
}
