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

// change is a write that made an object a shard's.
type change struct {
	version    int64
	deployment bool
	name       string
	shard      string
}

// record is what was written from some moment on.
type record struct {
	mu      sync.Mutex
	changes []change
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// record watches the Deployments and budgets of the test.
func (f *fixture) record() *record {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	r := &record{stop: cancel}
	f.t.Cleanup(r.end)
	// Without a version a watch begins with what there is.
	deployments, err := f.Clientset.AppsV1().Deployments(f.Namespace).Watch(ctx, metav1.ListOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	budgets, err := f.Clientset.PolicyV1().PodDisruptionBudgets(f.Namespace).Watch(ctx, metav1.ListOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	r.done.Go(func() { r.keep(deployments, true) })
	r.done.Go(func() { r.keep(budgets, false) })
	return r
}

func (r *record) keep(events watch.Interface, deployment bool) {
	for event := range events.ResultChan() {
		object, is := event.Object.(metav1.Object)
		if !is {
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

func (r *record) end() {
	r.stop()
	r.done.Wait()
}

// handedOver ends the record and returns how many Deployments went from one shard to another. All must
// have found their budgets there: they were written before.
func (r *record) handedOver(f *fixture) (n int) {
	f.t.Helper()
	r.end()
	// All versions are of the one etcd, so they are in order across kinds.
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
