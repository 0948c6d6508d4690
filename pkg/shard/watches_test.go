package shard_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// childOf makes a Secret that a ConfigMap controls. It has no label unless an owner is given.
func (f *fixture) childOf(main *corev1.ConfigMap, name, owner string) *corev1.Secret {
	f.t.Helper()
	child := f.child(name)
	if owner != "" {
		child.Labels = map[string]string{ours: owner}
	}
	f.Expect(controllerutil.SetControllerReference(main, child, f.scheme())).To(Succeed())
	return child
}

// startWatching starts a shard whose controller has Secrets as a sharded kind of Watches. It returns the manager and the
// names of the Secrets of its events.
func (f *fixture) startWatching(mode shard.Mode) (*shard.Manager, <-chan string) {
	f.t.Helper()
	names := make(chan string, 100)
	mgr := f.manager(mode)
	f.Expect(shard.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}, shard.Sharded{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, secret client.Object) []reconcile.Request {
			names <- secret.GetName()
			return nil
		}), shard.Sharded{}).
		Complete(nothing)).To(Succeed())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	f.t.Cleanup(func() {
		stop()
		f.Expect(<-ended).To(Succeed())
	})
	return mgr, names
}

// TestWatchedKindIsAssigned has the in-process sharder assign objects of a kind of Watches.
func TestWatchedKindIsAssigned(t *testing.T) {
	f := setUp(t)
	main := f.plain("main")
	earlier := f.childOf(main, "earlier", "")
	f.Expect(f.Client.Create(t.Context(), earlier)).To(Succeed())
	mgr, names := f.startWatching(shard.ModeInProcess)
	f.Eventually(func() map[string]string { return f.labels(main) }).Should(HaveKeyWithValue(ours, "a"))
	f.Eventually(func() map[string]string { return f.labels(earlier) }).WithTimeout(30*time.Second).Should(Equal(map[string]string{ours: "a"}), "it follows its controller")
	f.Eventually(names).Should(Receive(Equal("earlier")))

	t.Log("What the manager's client writes is assigned with the write")
	later := f.childOf(main, "later", "")
	f.Expect(mgr.GetClient().Create(t.Context(), later)).To(Succeed())
	f.Expect(f.labels(later)).To(Equal(map[string]string{ours: "a"}))
	f.Eventually(names).Should(Receive(Equal("later")))
}

// TestWatchedKindIsReleased drains an object as an external sharder does. Its children of a kind of Watches are
// handed over before it.
func TestWatchedKindIsReleased(t *testing.T) {
	f := setUp(t)
	f.peer("b", "b", nil)
	main := f.configMap("main", "a")
	child := f.childOf(main, "child", "a")
	f.Expect(f.Client.Create(t.Context(), child)).To(Succeed())
	_, names := f.startWatching(shard.ModeShard)
	f.Eventually(names).Should(Receive(Equal("child")))
	f.label(main, drain, "b")
	f.Eventually(func() map[string]string { return f.labels(main) }).Should(Equal(map[string]string{ours: "b"}), "the drain is acknowledged")
	f.Expect(f.labels(child)).To(Equal(map[string]string{ours: "b"}))
}
