package leases_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/leases"
)

// leaseWithState is the Lease of a shard with a state.
func leaseWithState(state string) *coordinationv1.Lease {
	name, seconds, transitions := "a", int32(15), int32(1)
	at := metav1.NewMicroTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1", Labels: map[string]string{shardingv1alpha1.LabelControllerRing: "ring"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, AcquireTime: &at, RenewTime: &at, LeaseTransitions: &transitions},
	}
	if state != "" {
		lease.Labels[shardingv1alpha1.LabelState] = state
	}
	return lease
}

func TestIgnoreRenewals(t *testing.T) {
	later := metav1.NewMicroTime(time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC))
	for name, test := range map[string]struct {
		state  string
		change func(*coordinationv1.Lease)
		want   bool
	}{
		"a renewal":              {"ready", func(*coordinationv1.Lease) {}, false},
		"of one without a state": {"", func(*coordinationv1.Lease) {}, false},
		"of an expired one":      {"expired", func(*coordinationv1.Lease) {}, true},
		"of a dead one":          {"dead", func(*coordinationv1.Lease) {}, true},
		"it is ready now":        {"", func(l *coordinationv1.Lease) { l.Labels[shardingv1alpha1.LabelState] = "ready" }, true},
		"the state was removed":  {"ready", func(l *coordinationv1.Lease) { delete(l.Labels, shardingv1alpha1.LabelState) }, true},
		"another ring":           {"ready", func(l *coordinationv1.Lease) { l.Labels[shardingv1alpha1.LabelControllerRing] = "other" }, true},
		"it is leaving": {"ready", func(l *coordinationv1.Lease) {
			l.Annotations = map[string]string{shardingv1alpha1.AnnotationLeaving: ""}
		}, true},
		"released":                         {"ready", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") }, true},
		"no holder":                        {"ready", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }, true},
		"another duration":                 {"ready", func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(1)) }, true},
		"acquired again":                   {"ready", func(l *coordinationv1.Lease) { l.Spec.AcquireTime = &later }, true},
		"another transition":               {"ready", func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = new(int32(2)) }, true},
		"without a renew time":             {"ready", func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }, true},
		"deleted and created between both": {"ready", func(l *coordinationv1.Lease) { l.UID = "2" }, true},
	} {
		before, after := leaseWithState(test.state), leaseWithState(test.state)
		after.Spec.RenewTime = &later
		test.change(after)
		if got := leases.IgnoreRenewals().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if predicate := leases.IgnoreRenewals(); !predicate.Create(event.CreateEvent{}) || !predicate.Delete(event.DeleteEvent{}) {
		t.Error("a Lease that is new or gone causes no reconcile")
	}
}

// TestExpiryIsNoticedWithoutEvents reconciles a Lease only when it was requeued for, while it is renewed in between.
func TestExpiryIsNoticedWithoutEvents(t *testing.T) {
	f := setUp(t)
	lease := f.lease("a")
	f.expect(lease, "ready", "Normal ShardReady")
	expectRequeue := func(want time.Duration) {
		t.Helper()
		result, err := f.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(lease)})
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(result.RequeueAfter).To(Equal(want))
	}
	expectRequeue(10 * time.Second)
	for range 3 {
		f.clock.Step(8 * time.Second)
		f.renew(lease)
		f.tracker.Observe(lease) // as the informer does
		f.clock.Step(2 * time.Second)
		expectRequeue(8 * time.Second) // when this renewal runs out
		f.clock.Step(-2 * time.Second)
	}
	f.clock.Step(10 * time.Second)
	f.expect(lease, "expired", "Warning ShardExpired")
}

// TestConflictIsRetried has the shard renew while its state is written. The renewal causes no reconcile.
func TestConflictIsRetried(t *testing.T) {
	f := setUp(t)
	lease := f.lease("a")
	f.Reconciler.Client = &renewingClient{f.Rig.Client, func() { f.renew(lease.DeepCopy()) }}
	result, err := f.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(lease)})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(result.RequeueAfter).To(BeNumerically(">", 0))
	f.Reconciler.Client = f.Rig.Client
	f.expect(lease, "ready", "Normal ShardReady")
}

func TestStrip(t *testing.T) {
	lease := leaseWithState("ready")
	lease.ResourceVersion, lease.ManagedFields = "7", []metav1.ManagedFieldsEntry{{Manager: "shard"}}
	lease.OwnerReferences, lease.Finalizers = []metav1.OwnerReference{{Name: "pod"}}, []string{"example.com/keep"}
	lease.Annotations = map[string]string{shardingv1alpha1.AnnotationLeaving: "", shardingv1alpha1.AnnotationResources: "[]", "note": strings.Repeat("x", 1<<18)}
	lease.Labels["app"] = "operator"
	lease.Spec.HolderIdentity = new(strings.Repeat("ö", 1<<18))
	want := leaseWithState("ready")
	want.ResourceVersion, want.Annotations = "7", map[string]string{shardingv1alpha1.AnnotationLeaving: "", shardingv1alpha1.AnnotationResources: "[]"}
	want.Spec.HolderIdentity = new(strings.Repeat("ö", 128))
	got, err := leases.Strip(lease)
	if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	lease.Annotations = map[string]string{shardingv1alpha1.AnnotationResources: strings.Repeat("x", 1<<18)}
	if got, err := leases.Strip(lease); err != nil || len(got.(*coordinationv1.Lease).Annotations) > 0 {
		t.Errorf("%v: a list of that length is kept", err)
	}
}
