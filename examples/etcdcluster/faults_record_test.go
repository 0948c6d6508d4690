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

// root is the prefix of the keys of the coordination.
const root = coordination.DefaultRoot + "/" + clusterName + "/"

// checkRecordedHistory checks a complete history. It must not be empty.
func (w *fixture) checkRecordedHistory(h *history) {
	w.t.Helper()
	h.checkEnd()
	orders := w.allOrders()
	w.t.Logf("history: %d grants of the lock, %d actions, %d accepted orders; the agents have carried out %d", h.grants, len(h.done), len(h.accepted), len(orders))
	w.Expect(h.unjustifiedOrders(w.cluster, orders)).To(BeEmpty())
	w.Expect(orders).NotTo(BeEmpty())
	w.Expect(h.violations).To(BeEmpty())
	w.Expect(h.grants).To(BeNumerically(">", 0))
	w.Expect(h.done).NotTo(BeEmpty())
}

// checkHistory reads the complete history of the coordination from the system, and checks it.
func (w *fixture) checkHistory() {
	w.t.Helper()
	w.checkHistoryIn(w.newClient())
}

// checkHistoryIn does the same for a store in another etcd.
func (w *fixture) checkHistoryIn(client *clientv3.Client) {
	w.t.Helper()
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	defer stop()
	// This last write marks the end of the history.
	end, err := client.Put(context.Background(), root+"end", "")
	w.Expect(err).NotTo(HaveOccurred())
	h, entries := newHistory(), map[string]string{}
	var revision int64
	for response := range client.Watch(ctx, root, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		w.Expect(response.Err()).NotTo(HaveOccurred())
		for _, event := range response.Events {
			if event.Kv.ModRevision != revision { // all events of the previous revision were read
				now, err := decodeState(entries)
				w.Expect(err).NotTo(HaveOccurred())
				h.advance(now)
			}
			revision = event.Kv.ModRevision
			if revision == end.Header.Revision {
				w.checkRecordedHistory(h)
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

// recorder records the coordination in a namespace, because an API server keeps no complete history.
type recorder struct {
	clients   kubernetes.Interface
	namespace string

	mu      sync.Mutex
	history *history
	version string // of the ConfigMap, as observed last
	failure error
}

// record starts a recorder, before the first write.
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
			r.observe(event)
		}
	})
	t.Cleanup(func() { stop(); watching.Stop(); ended.Wait() })
	return r
}

// observe handles the next version of the ConfigMap.
func (r *recorder) observe(event watch.Event) {
	object, ok := event.Object.(*corev1.ConfigMap)
	if !ok || object.Data["state"] == "" {
		return
	}
	// The format of kubestore.
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
	now, err := decodeState(entries)
	r.failure = errors.Join(r.failure, err)
	now.ended = func(session string) bool { _, alive := state.Sessions[session]; return !alive }
	r.history.advance(now)
}

// check checks that the record is complete, and that the history is valid.
func (r *recorder) check(w *fixture) {
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
	w.checkRecordedHistory(r.history)
}
