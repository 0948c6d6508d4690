package rings_test

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
	"github.com/ringmaster-project/ringmaster/internal/sharder/othersharders"
	"github.com/ringmaster-project/ringmaster/internal/sharder/rings"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"config/crds"}})
}

// fixture is a ring and its controller. The test implements Movers.
type fixture struct {
	*rig.Rig
	*WithT
	t            *testing.T
	ring         *shardingv1alpha1.ControllerRing
	lease        *coordinationv1.Lease
	clock        *clocktesting.FakeClock
	events       *events.FakeRecorder
	progress     moves.Progress
	ensured      types.UID
	otherSharder *othersharders.Sharder
	rings.Reconciler
}

func (f *fixture) Ensure(_ string, uid types.UID, _ int64, _ int) { f.ensured = uid }
func (f *fixture) Stop(string)                                    { f.ensured = "" }
func (f *fixture) Progress(string) moves.Progress                 { return f.progress }

func setUp(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Rig: rig.Shared(t), WithT: NewWithT(t), t: t, clock: clocktesting.NewFakeClock(time.Now()), events: events.NewFakeRecorder(100)}
	config := &configv1alpha1.SharderConfig{}
	configv1alpha1.SetDefaults(config)
	f.Reconciler = rings.Reconciler{
		Client: f.Rig.Client, Reader: f.Rig.Client, Movers: f, Events: f.events, Clock: f.clock, Config: config.Webhook.Config,
		Learn: func(_ context.Context, ring *shardingv1alpha1.ControllerRing) (*catalog.Ring, error) {
			return resolved(ring), nil
		},
		Shards: func(string) []members.Shard {
			return []members.Shard{{Namespace: f.Namespace, Name: "a", State: membership.Ready}}
		},
		Namespaces:     func(string) []string { return []string{f.Namespace} },
		OtherSharder:   func(string) *othersharders.Sharder { return f.otherSharder },
		ForeignSharder: func(string) *othersharders.Sharder { return nil },
		Authority:      func() []byte { return nil },
	}
	f.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "a"}}
	f.Expect(f.Rig.Client.Create(t.Context(), f.lease)).To(Succeed())
	f.declare()
	return f
}

// main is the ring's main resource. Tests share the API server, and no two have the same.
func (f *fixture) main() shardingv1alpha1.GroupResource {
	return shardingv1alpha1.GroupResource{Group: f.Namespace + ".example.com", Resource: "examples"}
}

// resolved is what is known of a ring. All its resources are main resources of namespaced kinds.
func resolved(ring *shardingv1alpha1.ControllerRing) *catalog.Ring {
	known := &catalog.Ring{Name: ring.Name, Namespaces: labels.Everything()}
	for _, main := range ring.Spec.Resources {
		known.Resources = append(known.Resources, catalog.Resource{
			Resource: schema.GroupVersionResource{Group: main.Group, Version: "v1", Resource: main.Resource},
			Kind:     catalog.Kind{GroupKind: schema.GroupKind{Group: main.Group, Kind: main.Resource}, Namespaced: true},
		})
	}
	return known
}

func (f *fixture) declare() {
	f.t.Helper()
	f.ring = &shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: f.Namespace},
		Spec: shardingv1alpha1.ControllerRingSpec{
			Resources:       []shardingv1alpha1.RingResource{{GroupResource: f.main()}},
			ShardNamespaces: []string{f.Namespace},
		},
	}
	f.Expect(f.Rig.Client.Create(f.t.Context(), f.ring)).To(Succeed())
}

// reconcile reconciles the ring, and returns the events without their notes.
func (f *fixture) reconcile() (emitted []string) {
	f.t.Helper()
	_, err := f.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.ring)})
	f.Expect(err).NotTo(HaveOccurred())
	for len(f.events.Events) > 0 {
		words := strings.SplitN(<-f.events.Events, " ", 3)
		emitted = append(emitted, words[0]+" "+words[1])
	}
	return emitted
}

func (f *fixture) reason(kind string) string {
	f.t.Helper()
	f.Expect(f.Rig.Client.Get(f.t.Context(), client.ObjectKeyFromObject(f.ring), f.ring)).To(Succeed())
	return meta.FindStatusCondition(f.ring.Status.Conditions, kind).Reason
}

// webhook reads the ring's webhook configuration.
func (f *fixture) webhook() (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	found := &admissionregistrationv1.MutatingWebhookConfiguration{}
	return found, f.Rig.Client.Get(f.t.Context(), client.ObjectKey{Name: "controllerring-" + f.Namespace}, found)
}

// TestFailedWriteAtShutdownIsNoError has the process stop while it reconciles a ring.
func TestFailedWriteAtShutdownIsNoError(t *testing.T) {
	f := setUp(t)
	ctx, end := context.WithCancel(t.Context())
	learn := f.Learn
	f.Learn = func(ctx context.Context, ring *shardingv1alpha1.ControllerRing) (*catalog.Ring, error) {
		end()
		return learn(ctx, ring)
	}
	_, err := f.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.ring)})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.events.Events).To(BeEmpty())
	f.Learn = learn
	f.reconcile()
	f.Expect(f.reason(shardingv1alpha1.ConditionReady)).NotTo(BeEmpty(), "the next one does it")
}

// TestDrainsAreReported at once and when they are slow, on the ring and on the shard's Lease.
func TestDrainsAreReported(t *testing.T) {
	f := setUp(t)
	f.Expect(f.reconcile()).To(Equal([]string{"Normal Ready"}), "nothing is known of the objects yet")
	f.progress.Synced = true
	f.Expect(f.reconcile()).To(Equal([]string{"Normal NothingOutstanding", "Normal AllAssigned"}))

	f.progress.Drains = moves.DrainReport{Outstanding: 5, Oldest: f.clock.Now(), Shard: "a"}
	f.Expect(f.reconcile()).To(Equal([]string{"Normal Draining"}))
	f.Expect(f.reason(shardingv1alpha1.ConditionDrained)).To(Equal(shardingv1alpha1.ReasonDraining))
	f.clock.Step(30 * time.Second)
	f.Expect(f.reconcile()).To(BeEmpty())
	f.clock.Step(31 * time.Second)
	f.Expect(f.reconcile()).To(Equal([]string{"Warning SlowDrain", "Warning SlowDrain"}), "the ring, and the Lease")
	f.Expect(f.reason(shardingv1alpha1.ConditionDrained)).To(Equal(shardingv1alpha1.ReasonSlowDrain))
	f.progress.Drains.Overdue = 5
	f.Expect(f.reconcile()).To(Equal([]string{"Warning DrainTimeout", "Warning DrainTimeout"}))

	f.progress.Drains = moves.DrainReport{}
	f.Expect(f.reconcile()).To(Equal([]string{"Normal NothingOutstanding"}))
	f.Expect(f.reason(shardingv1alpha1.ConditionReady)).To(Equal(shardingv1alpha1.ReasonReady), "all the time")
}

func TestUnassignedObjectsAreReported(t *testing.T) {
	f := setUp(t)
	f.progress = moves.Progress{Synced: true, Counts: moves.Counts{Unassigned: 3}}
	f.Expect(f.reconcile()).To(ContainElement("Warning UnassignedObjects"))
	f.progress.Counts.Unassigned = 0
	f.Expect(f.reconcile()).To(Equal([]string{"Normal AllAssigned"}))
	f.Shards = func(string) []members.Shard { return nil }
	f.Expect(f.reconcile()).To(Equal([]string{"Warning NoShards"}), "once, although nothing is ready nor assigned")
	f.Expect(f.reason(shardingv1alpha1.ConditionAssigned)).To(Equal(shardingv1alpha1.ReasonNoShards))
}

// TestInProcessSharderIsReported while it is active.
func TestInProcessSharderIsReported(t *testing.T) {
	f := setUp(t)
	f.reconcile()
	f.otherSharder = &othersharders.Sharder{Namespace: "theirs", Holder: "a", ExpiresAt: f.clock.Now().Add(15 * time.Second)}
	f.Expect(f.reconcile()).To(Equal([]string{"Warning TwoSharders"}))
	result, err := f.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.ring)})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(result.RequeueAfter).To(Equal(15*time.Second), "it may die without a word")
	f.otherSharder = nil
	f.Expect(f.reconcile()).To(Equal([]string{"Normal SoleSharder"}))
	f.Expect(f.reason(shardingv1alpha1.ConditionReady)).To(Equal(shardingv1alpha1.ReasonReady), "all the time")
}

// TestWebhookIsDeletedWithItsRing without a garbage collector, which does not run here.
func TestWebhookIsDeletedWithItsRing(t *testing.T) {
	f := setUp(t)
	f.reconcile()
	before, err := f.webhook()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(metav1.IsControlledBy(before, f.ring)).To(BeTrue())

	f.Expect(f.Rig.Client.Delete(t.Context(), f.ring)).To(Succeed())
	f.reconcile()
	_, err = f.webhook()
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	f.Expect(f.ensured).To(BeEmpty(), "nothing is moved")
	f.reconcile() // nothing is left to do

	f.declare()
	f.reconcile()
	after, err := f.webhook()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(metav1.IsControlledBy(after, f.ring)).To(BeTrue())
	f.Expect(f.ensured).To(Equal(f.ring.UID))
}

// TestNewRingOfSameNameTakesOverWebhook when the deletion of the previous ring was not observed.
func TestNewRingOfSameNameTakesOverWebhook(t *testing.T) {
	f := setUp(t)
	f.reconcile()
	f.Expect(f.Rig.Client.Delete(t.Context(), f.ring)).To(Succeed())
	f.declare()
	f.reconcile()
	found, err := f.webhook()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(found.OwnerReferences).To(HaveLen(1))
	f.Expect(metav1.IsControlledBy(found, f.ring)).To(BeTrue())
}

// TestTerminatingRingIsStopped although finalizers keep it.
func TestTerminatingRingIsStopped(t *testing.T) {
	f := setUp(t)
	f.ring.Finalizers = []string{"example.com/somebody"}
	f.Expect(f.Rig.Client.Update(t.Context(), f.ring)).To(Succeed())
	f.reconcile()
	f.Expect(f.Rig.Client.Delete(t.Context(), f.ring)).To(Succeed())
	f.reconcile()
	_, err := f.webhook()
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	f.Expect(f.ensured).To(BeEmpty())
}

// TestForeignWebhookIsKept although it has the name of a ring's webhook configuration.
func TestForeignWebhookIsKept(t *testing.T) {
	f := setUp(t)
	f.Expect(f.Rig.Client.Delete(t.Context(), f.ring)).To(Succeed())
	theirs := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "controllerring-" + f.Namespace}}
	f.Expect(f.Rig.Client.Create(t.Context(), theirs)).To(Succeed())
	f.reconcile()
	_, err := f.webhook()
	f.Expect(err).NotTo(HaveOccurred())
}
