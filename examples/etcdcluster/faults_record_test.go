//go:build faults

package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// root is what the keys of the operators begin with.
const root = coordination.DefaultRoot + "/" + clusterName + "/"

// expect sees that nothing is wrong with a history that something has happened in.
func (w *world) expect(h *history) {
	w.t.Helper()
	h.end()
	orders := w.allOrders()
	w.t.Logf("%d grants of the lock, %d acts and %d accepted orders are in the history; agents have carried out %d", h.grants, len(h.done), len(h.accepted), len(orders))
	w.Expect(h.unjustified(w.cluster, orders)).To(BeEmpty())
	w.Expect(orders).NotTo(BeEmpty())
	w.Expect(h.wrong).To(BeEmpty())
	w.Expect(h.grants).To(BeNumerically(">", 0))
	w.Expect(h.done).NotTo(BeEmpty())
}

// checkHistory reads all that was ever written from the system, which remembers it.
func (w *world) checkHistory() {
	w.t.Helper()
	w.checkHistoryIn(w.connect())
}

// checkHistoryIn does so where the operators meet in another etcd.
func (w *world) checkHistoryIn(client *clientv3.Client) {
	w.t.Helper()
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	defer stop()
	// The last one is this one's own, so that there is an end.
	end, err := client.Put(context.Background(), root+"end", "")
	w.Expect(err).NotTo(HaveOccurred())
	h, entries := newHistory(), map[string]string{}
	var revision int64
	for response := range client.Watch(ctx, root, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		w.Expect(response.Err()).NotTo(HaveOccurred())
		for _, event := range response.Events {
			if event.Kv.ModRevision != revision { // all of the one before is there
				now, err := momentOf(entries)
				w.Expect(err).NotTo(HaveOccurred())
				h.next(now)
			}
			revision = event.Kv.ModRevision
			if revision == end.Header.Revision {
				w.expect(h)
				return
			}
			key := strings.TrimPrefix(string(event.Kv.Key), root)
			if entries[key] = string(event.Kv.Value); event.Type != clientv3.EventTypePut {
				delete(entries, key)
			}
		}
	}
	w.t.Fatal("the history has no end")
}

// recorder writes down what operators say in a namespace. An API server does not remember it.
type recorder struct {
	clients   kubernetes.Interface
	namespace string

	mu      sync.Mutex
	history *history
	version string // of the ConfigMap, as it was seen last
	failure error
}

// record begins to write down, before anything is said.
func record(t *testing.T, clients kubernetes.Interface, namespace string) *recorder {
	t.Helper()
	r := &recorder{clients: clients, namespace: namespace, history: newHistory()}
	ctx, stop := context.WithCancel(context.Background())
	const hour = 60 * 60
	watching, err := clients.CoreV1().ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{TimeoutSeconds: ptr.To[int64](hour)})
	if err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		for event := range watching.ResultChan() {
			r.take(event)
		}
	})
	t.Cleanup(func() { stop(); watching.Stop(); ended.Wait() })
	return r
}

// take takes the next version of the ConfigMap.
func (r *recorder) take(event watch.Event) {
	object, is := event.Object.(*corev1.ConfigMap)
	if !is || object.Data["state"] == "" {
		return
	}
	// As kubestore writes it.
	var state struct {
		Entries  map[string]struct{ Value string }
		Sessions map[string]struct{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = object.ResourceVersion
	if err := json.Unmarshal([]byte(object.Data["state"]), &state); err != nil {
		r.failure = errors.Join(r.failure, err)
		return
	}
	entries := map[string]string{}
	for key, entry := range state.Entries {
		if below, ours := strings.CutPrefix(key, root); ours {
			entries[below] = entry.Value
		}
	}
	now, err := momentOf(entries)
	r.failure = errors.Join(r.failure, err)
	now.ended = func(session string) bool { _, alive := state.Sessions[session]; return !alive }
	r.history.next(now)
}

// check sees that all was written down, and that nothing is wrong with it.
func (r *recorder) check(w *world) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		found, err := r.clients.CoreV1().ConfigMaps(r.namespace).List(context.Background(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		last := slices.IndexFunc(found.Items, func(each corev1.ConfigMap) bool { return each.Data["state"] != "" })
		g.Expect(last).To(BeNumerically(">=", 0))
		r.mu.Lock()
		defer r.mu.Unlock()
		g.Expect(r.version).To(Equal(found.Items[last].ResourceVersion))
		g.Expect(r.failure).NotTo(HaveOccurred())
	}).Should(Succeed())
	r.mu.Lock()
	defer r.mu.Unlock()
	w.expect(r.history)
}
