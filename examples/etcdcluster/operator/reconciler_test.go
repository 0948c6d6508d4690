package operator

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// reconciling is a reconciler of some EtcdClusters, which counts how often it writes a status.
func reconciling(t *testing.T, p *play, clusters ...client.Object) (r *reconciler, writes *int) {
	t.Helper()
	scheme := runtime.NewScheme()
	p.must(etcdclusterv1alpha1.AddToScheme(scheme))
	writes = new(int)
	counting := interceptor.Funcs{SubResourcePatch: func(
		ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
	) error {
		*writes++
		return c.SubResource(sub).Patch(ctx, o, patch, opts...)
	}}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(clusters...).WithStatusSubresource(&etcdclusterv1alpha1.EtcdCluster{}).
		WithInterceptorFuncs(counting).Build()
	return &reconciler{
		Client: api, agent: &fakeAgent{}, events: events.NewFakeRecorder(100), parts: map[types.NamespacedName]*part{}, ctx: t.Context(),
		options: Options{Clock: p.clock, Name: "dc1-operator", Store: p.store},
	}, writes
}

func cluster(name, system string, age time.Duration) *etcdclusterv1alpha1.EtcdCluster {
	c := &etcdclusterv1alpha1.EtcdCluster{}
	c.Namespace, c.Name, c.Generation = "dc1", name, 1
	c.CreationTimestamp = metav1.NewTime(time.Unix(1_000_000, 0).Add(-age))
	c.Spec.System, c.Spec.ProcessGroupIDPrefix = system, "dc1"
	return c
}

// A status is written when it has changed, and not in every round.
func TestWriteOnce(t *testing.T) {
	t.Parallel()
	p := setting(t, three())
	c := cluster("orders", "", 0)
	r, writes := reconciling(t, p, c)
	for range 3 {
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		p.must(err)
	}
	if *writes != 1 {
		t.Errorf("written %d times", *writes)
	}
}

// Of two EtcdClusters for one system the older one has the members.
func TestOnePartOfASystem(t *testing.T) {
	t.Parallel()
	p := setting(t, three())
	elder, other, same := cluster("orders", "", time.Hour), cluster("other", "", 0), cluster("same", "orders", 0)
	r, _ := reconciling(t, p, elder, other, same)
	for name, taken := range map[string]bool{"orders": false, "other": false, "same": true} {
		key := types.NamespacedName{Namespace: "dc1", Name: name}
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		p.must(err)
		now := &etcdclusterv1alpha1.EtcdCluster{}
		p.must(r.Get(t.Context(), key, now))
		ready := condition(&now.Status, etcdclusterv1alpha1.ConditionReady)
		if is := ready.Reason == etcdclusterv1alpha1.ReasonSystemTaken; is != taken {
			t.Errorf("%s: %s: %s", name, ready.Reason, ready.Message)
		}
		if is := r.parts[key] == nil; is != taken {
			t.Errorf("%s is left alone: %t", name, is)
		}
	}
}

// An operator leaves when its EtcdCluster is deleted, also if that does not succeed at once.
func TestForget(t *testing.T) {
	t.Parallel()
	p := setting(t, three(), "dc1")
	p.says("dc1", restarts("dc1-1"))
	r, _ := reconciling(t, p)
	key := types.NamespacedName{Namespace: "dc1", Name: "orders"}
	r.parts[key] = p.rounds["dc1"].part
	for _, broken := range []error{errors.New("the store is away"), nil} {
		p.store.broken = broken
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); (err != nil) != (broken != nil) {
			t.Errorf("got %v", err)
		}
	}
	view, err := coordination.Look(t.Context(), p.store, "", "orders")
	p.must(err)
	if len(view.Instances) > 0 || len(view.Sets[coordination.PendingForRestart]) > 0 || r.parts[key] != nil {
		t.Errorf("it is still there: %v, %v", view.Instances, view.Sets)
	}
}
