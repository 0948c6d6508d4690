package leases_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/sharder/leases"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"config/crds"}})
}

// fixture is a ring and the controller of its Leases, with a clock that the test moves.
type fixture struct {
	*rig.Rig
	*WithT
	t            *testing.T
	clock        *clocktesting.FakeClock
	tracker      *members.Tracker
	events       *events.FakeRecorder
	changes      []string
	otherSharder bool
	leases.Reconciler
}

func setUp(t *testing.T, namespaces ...string) *fixture {
	t.Helper()
	f := &fixture{Rig: rig.Shared(t), WithT: NewWithT(t), t: t, clock: clocktesting.NewFakeClock(time.Now()), events: events.NewFakeRecorder(100)}
	f.tracker = members.New(f.clock, func(string) {})
	f.Reconciler.Client, f.Shards, f.Events, f.Clock = f.Rig.Client, f.tracker, f.events, f.clock
	f.Ring = func(ctx context.Context, name string) (*shardingv1alpha1.ControllerRing, error) {
		ring := &shardingv1alpha1.ControllerRing{}
		if err := f.Rig.Client.Get(ctx, client.ObjectKey{Name: name}, ring); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return ring, nil
	}
	f.OtherSharderActive = func(string) bool { return f.otherSharder }
	f.Transition = func(_ string, from, to membership.State) { f.changes = append(f.changes, string(from)+">"+string(to)) }
	ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace}}
	ring.Spec.ShardNamespaces = namespaces
	f.Expect(f.Rig.Client.Create(t.Context(), ring)).To(Succeed())
	f.tracker.Declare(ring.Name, namespaces)
	return f
}

// lease makes the Lease of a shard of the ring.
func (f *fixture) lease(name string) *coordinationv1.Lease {
	f.t.Helper()
	seconds, now := int32(10), metav1.NewMicroTime(f.clock.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: f.Namespace}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
	f.Expect(f.Rig.Client.Create(f.t.Context(), lease)).To(Succeed())
	return lease
}

// change writes a Lease.
func (f *fixture) change(lease *coordinationv1.Lease, change func(*coordinationv1.LeaseSpec)) {
	f.t.Helper()
	f.Expect(f.get(lease)).To(Succeed())
	change(&lease.Spec)
	f.Expect(f.Rig.Client.Update(f.t.Context(), lease)).To(Succeed())
}

func (f *fixture) renew(lease *coordinationv1.Lease) {
	f.t.Helper()
	now := metav1.NewMicroTime(f.clock.Now())
	f.change(lease, func(spec *coordinationv1.LeaseSpec) { spec.RenewTime = &now })
}

func (f *fixture) get(lease *coordinationv1.Lease) error {
	return f.Rig.Client.Get(f.t.Context(), client.ObjectKeyFromObject(lease), lease)
}

// reconcile reconciles a Lease, and returns its state label and the reasons of the events.
func (f *fixture) reconcile(lease *coordinationv1.Lease) (state string, emitted []string) {
	f.t.Helper()
	_, err := f.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(lease)})
	f.Expect(err).NotTo(HaveOccurred())
	for len(f.events.Events) > 0 {
		words := strings.SplitN(<-f.events.Events, " ", 3) // kind, reason, note
		emitted = append(emitted, words[0]+" "+words[1])
	}
	if err := f.get(lease); err != nil {
		f.Expect(apierrors.IsNotFound(err)).To(BeTrue())
		return "gone", emitted
	}
	return lease.Labels[shardingv1alpha1.LabelState], emitted
}

// expect reconciles a Lease and compares.
func (f *fixture) expect(lease *coordinationv1.Lease, state string, emitted ...string) {
	f.t.Helper()
	gotState, gotEmitted := f.reconcile(lease)
	f.Expect(gotState).To(Equal(state))
	f.Expect(slices.Equal(gotEmitted, emitted)).To(BeTrue(), "events: %q, want %q", gotEmitted, emitted)
}

// TestEachStateOfAShardIsReported has one join, be late, come back, die and be shardForgotten, and says so each time.
func TestEachStateOfAShardIsReported(t *testing.T) {
	f := setUp(t)
	lease := f.lease("a")
	f.expect(lease, "ready", "Normal ShardReady")
	f.expect(lease, "ready")
	f.clock.Step(11 * time.Second)
	f.expect(lease, "expired", "Warning ShardExpired")
	f.renew(lease)
	f.expect(lease, "ready", "Normal ShardReady")
	f.clock.Step(21 * time.Second) // no other shard proves that the API server works
	f.expect(lease, "dead", "Warning ShardDead")
	f.Expect(*lease.Spec.HolderIdentity).To(Equal(shardingv1alpha1.IdentityShardLeaseController))
	f.Expect(*lease.Spec.LeaseDurationSeconds).To(Equal(int32(20)))
	f.expect(lease, "dead")
	f.clock.Step(20*time.Second + time.Minute)
	f.expect(lease, "gone", "Normal ShardForgotten")
	f.expect(lease, "gone")
	f.Expect(f.changes).To(Equal([]string{">ready", "ready>expired", "expired>ready", "uncertain>dead", "dead>orphaned"}))
}

// TestCordonIsReportedOnce has a ring that no longer accepts shards from a member's namespace. The shard's state is
// shown as before.
func TestCordonIsReportedOnce(t *testing.T) {
	f := setUp(t)
	lease := f.lease("a")
	f.expect(lease, "ready", "Normal ShardReady")
	f.tracker.Declare(f.Namespace, []string{"elsewhere"})
	f.expect(lease, "ready", "Normal ShardCordoned")
	f.expect(lease, "ready")
	f.tracker.Declare(f.Namespace, nil)
	f.expect(lease, "ready")
	f.tracker.Declare(f.Namespace, []string{"elsewhere"})
	f.expect(lease, "ready", "Normal ShardCordoned")
	f.clock.Step(11 * time.Second)
	f.expect(lease, "expired", "Warning ShardExpired")
	f.clock.Step(10 * time.Second)
	f.expect(lease, "dead", "Warning ShardDead")
}

// TestPeersElsewhereIsAnnotated while a shard has peers in namespaces that it cannot read.
func TestPeersElsewhereIsAnnotated(t *testing.T) {
	f := setUp(t)
	lease := f.lease("a")
	f.expect(lease, "ready", "Normal ShardReady")
	f.Expect(lease.Annotations).NotTo(HaveKey(shardingv1alpha1.AnnotationPeersElsewhere))
	other := lease.DeepCopy()
	other.Namespace, other.Name, other.UID, other.Spec.HolderIdentity = "elsewhere", "b", "other", new("b")
	f.tracker.Observe(other)
	f.expect(lease, "ready")
	f.Expect(lease.Annotations).To(HaveKey(shardingv1alpha1.AnnotationPeersElsewhere))
	nobody := other.DeepCopy()
	nobody.Spec.HolderIdentity = new("")
	f.tracker.Observe(nobody)
	f.expect(lease, "ready")
	f.Expect(lease.Annotations).NotTo(HaveKey(shardingv1alpha1.AnnotationPeersElsewhere))
}

// TestReleaseIsNotReportedAsDeath, also if the shard had expired before.
func TestReleaseIsNotReportedAsDeath(t *testing.T) {
	f := setUp(t)
	lease, nobody := f.lease("a"), ""
	f.expect(lease, "ready", "Normal ShardReady")
	f.clock.Step(11 * time.Second)
	f.expect(lease, "expired", "Warning ShardExpired")
	f.change(lease, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &nobody })
	f.expect(lease, "dead", "Normal ShardReleased")
	back := "a"
	f.change(lease, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &back })
	f.renew(lease)
	f.expect(lease, "ready", "Normal ShardReady")
}

// cancelling is a client that cancels a context when it writes.
type cancelling struct {
	client.Client
	end context.CancelFunc
}

func (e *cancelling) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	e.end()
	return e.Client.Patch(ctx, object, patch, options...)
}

// renewingClient is a client that lets the shard renew before each write.
type renewingClient struct {
	client.Client
	renew func()
}

func (r *renewingClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	r.renew()
	return r.Client.Patch(ctx, object, patch, options...)
}

// TestFailedWriteAtShutdownIsNoError has the process stop while it writes.
func TestFailedWriteAtShutdownIsNoError(t *testing.T) {
	f := setUp(t)
	lease, nobody := f.lease("a"), ""
	f.expect(lease, "ready", "Normal ShardReady")
	f.change(lease, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &nobody })
	ctx, end := context.WithCancel(t.Context())
	f.Reconciler.Client = &cancelling{f.Rig.Client, end}
	result, err := f.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(lease)})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(result).To(BeZero())
	f.Reconciler.Client = f.Rig.Client
	f.expect(lease, "dead", "Normal ShardReleased") // by the next leader
}

func TestLeaseHeldByAnotherProcess(t *testing.T) {
	f := setUp(t)
	lease, other := f.lease("a"), "b"
	f.expect(lease, "ready", "Normal ShardReady")
	f.change(lease, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &other })
	f.expect(lease, "dead", "Warning ShardNotHeld")
}

// TestTooLongLeaseDurationIsRefused refuses a Lease that would stay ready for 68 years, and takes it over.
func TestTooLongLeaseDurationIsRefused(t *testing.T) {
	f := setUp(t)
	lease, longest, most := f.lease("a"), int32(1<<31-1), int32(membership.MaxDuration/time.Second)
	f.change(lease, func(spec *coordinationv1.LeaseSpec) { spec.LeaseDurationSeconds = &longest })
	f.expect(lease, "", "Warning ShardRefused")
	f.Expect(*lease.Spec.HolderIdentity).To(Equal(shardingv1alpha1.IdentityShardLeaseController))
	f.Expect(*lease.Spec.LeaseDurationSeconds).To(Equal(most))
	self := "a"
	f.change(lease, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity, spec.LeaseDurationSeconds = &self, &most })
	f.expect(lease, "ready", "Normal ShardReady")
	f.clock.Step(2 * membership.MaxDuration)
	f.expect(lease, "dead", "Warning ShardDead")
	f.Expect(*lease.Spec.LeaseDurationSeconds).To(Equal(most))
}

// TestRefusalIsReportedOnce, and the Lease is accepted when the ring accepts its namespace.
func TestRefusalIsReportedOnce(t *testing.T) {
	f := setUp(t, "elsewhere")
	lease := f.lease("a")
	f.expect(lease, "", "Warning ShardRefused")
	f.renew(lease)
	f.expect(lease, "")
	ring := &shardingv1alpha1.ControllerRing{}
	f.Expect(f.Rig.Client.Get(t.Context(), client.ObjectKey{Name: f.Namespace}, ring)).To(Succeed())
	ring.Spec.ShardNamespaces = nil
	f.Expect(f.Rig.Client.Update(t.Context(), ring)).To(Succeed())
	// The ring is in the cache, and not learned yet.
	result, err := f.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(lease)})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(result.RequeueAfter).To(BeNumerically(">", 0))
	f.tracker.Declare(ring.Name, nil)
	f.expect(lease, "ready", "Normal ShardReady")
	f.Expect(f.Rig.Client.Delete(t.Context(), ring)).To(Succeed())
	f.tracker.Drop(ring.Name)
	f.expect(lease, "", "Warning ShardRefused")
}

// TestShardOfOtherSharderIsNotRefused has a ring without a ControllerRing that an in-process sharder serves.
func TestShardOfOtherSharderIsNotRefused(t *testing.T) {
	f := setUp(t, "elsewhere")
	lease := f.lease("a")
	lease.Labels[shardingv1alpha1.LabelState] = "ready"
	f.Expect(f.Rig.Client.Update(t.Context(), lease)).To(Succeed())
	f.otherSharder = true
	f.expect(lease, "ready")
	f.otherSharder = false
	f.expect(lease, "", "Warning ShardRefused")
}

func TestTooLongNameIsRefused(t *testing.T) {
	f := setUp(t)
	f.expect(f.lease(strings.Repeat("a", 64)), "", "Warning ShardRefused")
}

// leaseIn makes the Lease of a shard of the ring in another namespace.
func (f *fixture) leaseIn(namespace, name string) *coordinationv1.Lease {
	f.t.Helper()
	f.Expect(f.Rig.Client.Create(f.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	seconds, now := int32(10), metav1.NewMicroTime(f.clock.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: f.Namespace}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
	f.Expect(f.Rig.Client.Create(f.t.Context(), lease)).To(Succeed())
	return lease
}

// waitStopped steps the clock until a shard whose Lease was deleted has certainly stopped.
func (f *fixture) waitStopped(key client.ObjectKey) {
	f.t.Helper()
	f.clock.Step(12 * time.Second)
	f.Eventually(func() bool {
		return slices.ContainsFunc(f.tracker.Shards(f.Namespace), func(shard members.Shard) bool {
			return shard.Name == key.Name && shard.Namespace == key.Namespace
		})
	}).WithTimeout(rig.Timeout).Should(BeFalse())
}

// TestShardWithTakenNameIsRefused has a shard of the same name in another namespace, which is made to stop until the
// name is free.
func TestShardWithTakenNameIsRefused(t *testing.T) {
	f := setUp(t)
	incumbent, nobody, self := f.lease("a"), "", "a"
	f.expect(incumbent, "ready", "Normal ShardReady")
	time.Sleep(time.Second) // creation timestamps have a precision of one second
	second := f.leaseIn("aaa-"+f.Namespace, "a")
	f.expect(second, "", "Warning ShardRefused")
	f.Expect(*second.Spec.HolderIdentity).To(Equal(shardingv1alpha1.IdentityShardLeaseController))
	f.expect(second, "") // no second event
	f.expect(incumbent, "ready")

	f.change(incumbent, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &nobody })
	f.expect(incumbent, "dead", "Normal ShardReleased")
	f.change(second, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &self })
	f.expect(second, "")
	f.Expect(*second.Spec.HolderIdentity).To(Equal(shardingv1alpha1.IdentityShardLeaseController), "the incumbent restarts")
	f.change(incumbent, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &self })
	f.expect(incumbent, "ready", "Normal ShardReady")

	f.Expect(f.Rig.Client.Delete(t.Context(), incumbent)).To(Succeed())
	f.tracker.Forget(client.ObjectKeyFromObject(incumbent))
	f.change(second, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &self })
	f.expect(second, "")
	f.Expect(*second.Spec.HolderIdentity).To(Equal(shardingv1alpha1.IdentityShardLeaseController), "the incumbent may still work")
	f.waitStopped(client.ObjectKeyFromObject(incumbent))
	f.change(second, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &self })
	f.expect(second, "ready", "Normal ShardReady")
}

// TestShardBeyondMaximumIsRefused has one shard more than a ring can have.
func TestShardBeyondMaximumIsRefused(t *testing.T) {
	f := setUp(t)
	for i := range membership.MaxShards {
		name := fmt.Sprintf("older-%d", i)
		f.tracker.Observe(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: f.Namespace}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name},
		})
	}
	lease, self := f.lease("a"), "a"
	f.expect(lease, "", "Warning ShardRefused")
	f.Expect(*lease.Spec.HolderIdentity).To(Equal(shardingv1alpha1.IdentityShardLeaseController))
	f.tracker.Forget(client.ObjectKey{Namespace: f.Namespace, Name: "older-7"})
	f.waitStopped(client.ObjectKey{Namespace: f.Namespace, Name: "older-7"})
	f.change(lease, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &self })
	f.expect(lease, "ready", "Normal ShardReady")
}
