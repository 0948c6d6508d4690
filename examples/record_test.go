package examples_test

import (
	"context"
	"slices"
	"strconv"
	"sync"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// change is a write that assigned an object to a shard.
type change struct {
	version    int64
	deployment bool
	name       string
	shard      string
}

// recording has the writes since its start.
type recording struct {
	mu      sync.Mutex
	changes []change
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// startRecording watches the Deployments and budgets of the test.
func (f *fixture) startRecording() *recording {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	r := &recording{stop: cancel}
	f.t.Cleanup(r.end)
	// Without a resourceVersion a watch begins with the existing objects.
	deployments, err := f.Clientset.AppsV1().Deployments(f.Namespace).Watch(ctx, metav1.ListOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	budgets, err := f.Clientset.PolicyV1().PodDisruptionBudgets(f.Namespace).Watch(ctx, metav1.ListOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	r.done.Go(func() { r.collect(deployments, true) })
	r.done.Go(func() { r.collect(budgets, false) })
	return r
}

func (r *recording) collect(events watch.Interface, deployment bool) {
	for event := range events.ResultChan() {
		object, ok := event.Object.(metav1.Object)
		if !ok {
			continue
		}
		version, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
		if err != nil {
			continue
		}
		r.mu.Lock()
		r.changes = append(r.changes, change{version, deployment, object.GetName(), object.GetLabels()[labelShard]})
		r.mu.Unlock()
	}
}

func (r *recording) end() {
	r.stop()
	r.done.Wait()
}

// handovers ends the recording and returns how many Deployments changed their owner. The budget of each must have been written before.
func (r *recording) handovers(f *fixture) (n int) {
	f.t.Helper()
	r.end()
	// All kinds are in the same etcd, so that their resourceVersions are comparable.
	slices.SortFunc(r.changes, func(a, b change) int { return int(a.version - b.version) })
	deployments, budgets := map[string]string{}, map[string]string{}
	for _, c := range r.changes {
		if !c.deployment {
			budgets[c.name] = c.shard
			continue
		}
		before, known := deployments[c.name]
		deployments[c.name] = c.shard
		if known && before != c.shard {
			n++
			f.Expect(budgets).To(HaveKeyWithValue(c.name, c.shard), "before its Deployment, which was with %s", before)
		}
	}
	return n
}
