package moves_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

const testTimeout = rig.Timeout

var (
	configMaps = catalog.Kind{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespaced: true}
	runtimes   = catalog.Kind{GroupKind: schema.GroupKind{Group: "node.k8s.io", Kind: "RuntimeClass"}}
)

// fixture is a ring of ConfigMaps with Secrets and of RuntimeClasses with ServiceAccounts, on a real
// API server. The tests act as the shards.
type fixture struct {
	*rig.Rig
	*WithT
	name  string
	rings catalog.Catalog

	mu      sync.Mutex
	members *ring.Ring
	alive   map[string]bool // besides the members
	changed chan struct{}
	writes  map[assignment.Action]int
	synced  int
	counts  moves.Counts
	drains  moves.DrainReport
}

func setUp(t *testing.T, shards ...string) *fixture {
	t.Helper()
	f := &fixture{
		Rig: rig.Shared(t), WithT: NewWithT(t),
		members: ring.New(shards), changed: make(chan struct{}), writes: map[assignment.Action]int{},
	}
	f.SetDefaultEventuallyTimeout(testTimeout)
	f.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	f.name = f.Namespace // so that tests do not see each other's labels
	f.rings.Set(&catalog.Ring{Name: f.name, Namespaces: labels.Everything(), Resources: []catalog.Resource{
		{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: configMaps},
		{
			Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Controllers: []catalog.Kind{configMaps},
			Kind: catalog.Kind{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespaced: true},
		},
		{Resource: nodev1.SchemeGroupVersion.WithResource("runtimeclasses"), Kind: runtimes},
		{
			Resource: corev1.SchemeGroupVersion.WithResource("serviceaccounts"), Controllers: []catalog.Kind{runtimes},
			Kind: catalog.Kind{GroupKind: schema.GroupKind{Kind: "ServiceAccount"}, Namespaced: true},
		},
	}})
	return f
}

// Ring implements members.Source.
func (f *fixture) Ring(string) (*ring.Ring, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members, f.changed
}

// setMembers changes the members.
func (f *fixture) setMembers(shards ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = ring.New(shards)
	close(f.changed)
	f.changed = make(chan struct{})
}

// run runs a mover until the test ends.
func (f *fixture) run(t *testing.T, change ...func(*moves.Options)) {
	t.Helper()
	client, err := metadata.NewForConfig(f.Config)
	f.Expect(err).NotTo(HaveOccurred())
	options := moves.Options{
		Metadata: client, Rings: &f.rings, Members: f,
		Holders: func(context.Context, string) (map[string]bool, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.alive, nil
		},
		// Only this test's namespace, because tests share the control plane.
		Selects: func(_ *catalog.Ring, namespace string) bool { return namespace == f.Namespace },
		OnWrite: func(_ string, _ schema.GroupResource, action assignment.Action, _ time.Duration) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.writes[action]++
		},
		OnSynced: func(_ string, counts moves.Counts, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if err != nil {
				t.Logf("sync: %v", err)
			}
			f.counts = counts
			f.synced++
		},
		OnDrained: func(_ string, report moves.DrainReport) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.drains = report
		},
		SyncPeriod: time.Hour, ConcurrentMoves: 20, Clock: clock.RealClock{},
	}
	for _, c := range change {
		c(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		moves.New(options).Run(ctx, f.name, nil)
	}()
	t.Cleanup(func() {
		began := time.Now()
		cancel()
		<-done
		if took := time.Since(began); took > time.Second {
			t.Errorf("the mover took %s to stop", took)
		}
	})
}

// create makes n main objects with a child each, of a namespaced and of a cluster-scoped kind.
func (f *fixture) create(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("%s-%d", f.Namespace, i)
		object := &corev1.ConfigMap{ObjectMeta: f.meta(name)}
		f.Expect(f.Client.Create(t.Context(), object)).To(Succeed())
		f.Expect(f.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: f.child(object, "v1", "ConfigMap")})).To(Succeed())
	}
	for i := range n / 10 {
		name := fmt.Sprintf("%s-%d", f.Namespace, i)
		object := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: "none"}
		f.Expect(f.Client.Create(t.Context(), object)).To(Succeed())
		t.Cleanup(func() { _ = f.Client.Delete(context.Background(), object) })
		f.Expect(f.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: f.child(object, "node.k8s.io/v1", "RuntimeClass")})).To(Succeed())
	}
}

func (f *fixture) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: f.Namespace, Name: name}
}

func (f *fixture) child(owner client.Object, version, kind string) metav1.ObjectMeta {
	meta, yes := f.meta(owner.GetName()), true
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}}
	return meta
}

// objects are the test's objects of a kind, without the ones that a cluster has by itself.
func (f *fixture) objects(kind schema.GroupVersionKind) map[string]map[string]string {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	f.Expect(f.Client.List(context.Background(), list)).To(Succeed())
	found := map[string]map[string]string{}
	for i := range list.Items {
		item := &list.Items[i]
		if len(item.Name) > len(f.Namespace) && item.Name[:len(f.Namespace)] == f.Namespace {
			found[item.Name] = item.Labels
		}
	}
	return found
}

var (
	configMapKind      = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secretKind         = corev1.SchemeGroupVersion.WithKind("Secret")
	runtimeClassKind   = nodev1.SchemeGroupVersion.WithKind("RuntimeClass")
	serviceAccountKind = corev1.SchemeGroupVersion.WithKind("ServiceAccount")
)

// ownedBy returns the names of the main objects of a kind that a shard owns by the ring.
func (f *fixture) ownedBy(shard string, kind schema.GroupVersionKind, main catalog.Kind) []string {
	members, _ := f.Ring("")
	var names []string
	for name := range f.objects(kind) {
		namespace := ""
		if main.Namespaced {
			namespace = f.Namespace
		}
		if members.Owner(assignment.Key(main.GroupKind, namespace, name)) == shard {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// misplaced describes the objects with another owner than the ring says, and those being drained.
func (f *fixture) misplaced() []string {
	members, _ := f.Ring("")
	var wrong []string
	check := func(kind schema.GroupVersionKind, owner catalog.Kind, namespace string) {
		for name, labels := range f.objects(kind) {
			want := members.Owner(assignment.Key(owner.GroupKind, namespace, name))
			_, draining := labels[shardingv1alpha1.LabelDrain(f.name)]
			if got := labels[shardingv1alpha1.LabelShard(f.name)]; got != want || draining {
				wrong = append(wrong, fmt.Sprintf("%s %s is with %q, not %q (draining: %t)", kind.Kind, name, got, want, draining))
			}
		}
	}
	check(configMapKind, configMaps, f.Namespace)
	check(secretKind, configMaps, f.Namespace)
	check(runtimeClassKind, runtimes, "")
	check(serviceAccountKind, runtimes, "")
	return wrong
}

func (f *fixture) written() map[assignment.Action]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.writes)
}

func (f *fixture) forgetWrites() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.writes)
}

// n is how many ConfigMaps there are; all is how many objects.
const n, all = 60, 2*60 + 2*6

func TestUnassignedObjectsAreFound(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.create(t, n)
	f.run(t)
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.Expect(f.written()).To(Equal(map[assignment.Action]int{assignment.Assign: all}), "one write for each object")
}

func TestDeadShardsObjectsMoveAtOnce(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.create(t, n)
	f.run(t)
	f.Eventually(f.misplaced).Should(BeEmpty())
	dead := 0
	for _, kind := range []schema.GroupVersionKind{configMapKind, secretKind, runtimeClassKind, serviceAccountKind} {
		for _, labels := range f.objects(kind) {
			if labels[shardingv1alpha1.LabelShard(f.name)] == "b" {
				dead++
			}
		}
	}
	f.Expect(dead).To(BeNumerically(">", 0))
	f.forgetWrites()
	f.setMembers("a", "c")
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.Expect(f.written()).To(Equal(map[assignment.Action]int{assignment.Assign: dead}), "only the dead shard's objects, one write each")
}

// TestObjectsOfUnobservedShardAreNotReassigned has another replica observe first that a shard joined,
// and assign objects to it.
func TestObjectsOfUnobservedShardAreNotReassigned(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.create(t, n)
	f.run(t)
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.forgetWrites()
	f.mu.Lock()
	f.alive = map[string]bool{"b": true}
	before := f.synced
	f.mu.Unlock()
	f.setMembers("a", "c", "d") // this process has not observed b; the new member d causes a resync
	f.Eventually(func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.synced
	}).Should(BeNumerically(">", before))
	f.Expect(f.written()).NotTo(HaveKey(assignment.Assign))

	t.Log("The shard dies")
	f.mu.Lock()
	f.alive = nil
	f.mu.Unlock()
	f.setMembers("a", "c")
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.Expect(f.written()).To(HaveKey(assignment.Assign))
}

// release acts as a shard of another implementation, which removes both labels, and as the webhook, which
// assigns the object in the same write.
func (f *fixture) release(ctx context.Context, name string) {
	members, _ := f.Ring("")
	object := &corev1.ConfigMap{}
	f.Expect(f.Client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, object)).To(Succeed())
	object.Labels[shardingv1alpha1.LabelShard(f.name)] = members.Owner(assignment.Key(configMaps.GroupKind, f.Namespace, name))
	delete(object.Labels, shardingv1alpha1.LabelDrain(f.name))
	f.Expect(f.Client.Update(ctx, object)).To(Succeed())
}

// drained are the objects of a kind that have the drain label, with its value.
func (f *fixture) drained(kind schema.GroupVersionKind) map[string]string {
	found := map[string]string{}
	for name, labels := range f.objects(kind) {
		if value, has := labels[shardingv1alpha1.LabelDrain(f.name)]; has {
			found[name] = value
		}
	}
	return found
}

func TestNewShardGetsItsShareByDrains(t *testing.T) {
	f := setUp(t, "a", "b")
	f.create(t, n)
	f.run(t)
	f.Eventually(f.misplaced).Should(BeEmpty())
	before := f.objects(secretKind)
	f.forgetWrites()
	f.setMembers("a", "b", "c")

	// The sharder drains every object of the new share, with the destination. Nothing else moves until the shards answer.
	configMapsOfC, runtimeClassesOfC := f.ownedBy("c", configMapKind, configMaps), f.ownedBy("c", runtimeClassKind, runtimes)
	var drains map[string]string
	f.Eventually(func() []string { drains = f.drained(configMapKind); return slices.Sorted(maps.Keys(drains)) }).Should(Equal(configMapsOfC))
	f.Eventually(func() []string { return slices.Sorted(maps.Keys(f.drained(runtimeClassKind))) }).Should(Equal(runtimeClassesOfC))
	f.Eventually(func() int { return f.written()[assignment.Drain] }).Should(Equal(len(configMapsOfC) + len(runtimeClassesOfC)))
	f.Eventually(func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.drains.Outstanding }).Should(BeNumerically(">", 0))
	for name, destination := range drains {
		f.Expect(destination).To(Equal("c"), name)
	}
	f.Consistently(func() map[string]map[string]string { return f.objects(secretKind) }, "1500ms").
		Should(Equal(before), "children stay with their controllers")

	// The shards release their objects, and the children follow.
	for name := range drains {
		f.release(t.Context(), name)
	}
	for name := range f.drained(runtimeClassKind) {
		object := &nodev1.RuntimeClass{}
		f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: name}, object)).To(Succeed())
		object.Labels = map[string]string{shardingv1alpha1.LabelShard(f.name): "c"}
		f.Expect(f.Client.Update(t.Context(), object)).To(Succeed())
	}
	f.Eventually(f.misplaced).Should(BeEmpty())
	written := f.written()
	f.Expect(written[assignment.Move]).To(Equal(written[assignment.Drain]), "a child for each: %v", written)
	f.Expect(written[assignment.Assign]).To(BeZero())
	f.Eventually(func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.drains.Outstanding }).Should(BeZero())
}

// TestDrainIsWithdrawn removes the new shard before any object has been released.
func TestDrainIsWithdrawn(t *testing.T) {
	f := setUp(t, "a", "b")
	f.create(t, n)
	f.run(t)
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.setMembers("a", "b", "c")
	f.Eventually(func() int { return len(f.drained(configMapKind)) }).Should(BeNumerically(">", 0))
	f.setMembers("a", "b")
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.Expect(f.written()[assignment.Assign]).To(Equal(all), "nothing was moved")
}

func TestOverdueDrainsFollowPolicy(t *testing.T) {
	for action, moved := range map[shardingv1alpha1.DrainTimeoutAction]bool{
		shardingv1alpha1.DrainWait: false, shardingv1alpha1.DrainMove: true,
	} {
		t.Run(string(action), func(t *testing.T) {
			f := setUp(t, "a", "b")
			f.create(t, n)
			declared := *f.rings.Get(f.name)
			declared.Drain = shardingv1alpha1.DrainPolicy{Timeout: &metav1.Duration{Duration: time.Millisecond}, OnTimeout: action}
			f.rings.Set(&declared)
			f.run(t)
			f.Eventually(f.misplaced).Should(BeEmpty())
			f.setMembers("a", "b", "c")
			if moved {
				f.Eventually(f.misplaced).Should(BeEmpty())
				return
			}
			f.Eventually(func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.drains.Overdue }).Should(BeNumerically(">", 0))
			f.Consistently(func() int { return len(f.drained(configMapKind)) }, "2s").Should(BeNumerically(">", 0))
		})
	}
}

// TestResyncAtRestWritesNothing resyncs all the time.
func TestResyncAtRestWritesNothing(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.create(t, n)
	f.run(t, func(o *moves.Options) { o.SyncPeriod = 10 * time.Millisecond })
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.forgetWrites()
	f.mu.Lock()
	from := f.synced
	f.mu.Unlock()
	f.Eventually(func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.synced }).Should(BeNumerically(">", from+5))
	f.Expect(f.written()).To(BeEmpty())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Expect(f.counts.Unassigned).To(BeZero())
	f.Expect(f.counts.Objects).To(HaveLen(4))
}

// TestControlledKindsAreResyncedInRotation has another client assign children to wrong shards. Each kind is
// corrected, and the counts of the kinds that were not listed stay.
func TestControlledKindsAreResyncedInRotation(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.create(t, n)
	f.run(t, func(o *moves.Options) { o.SyncPeriod = 50 * time.Millisecond })
	f.Eventually(f.misplaced).Should(BeEmpty())
	name := fmt.Sprintf("%s-%d", f.Namespace, 0)
	for range 2 {
		for _, shard := range []string{"a", "b", "c"} { // two of them are wrong
			for _, child := range []client.Object{&corev1.Secret{ObjectMeta: f.meta(name)}, &corev1.ServiceAccount{ObjectMeta: f.meta(name)}} {
				f.Expect(f.Client.Patch(t.Context(), child, client.RawPatch("application/merge-patch+json",
					fmt.Appendf(nil, `{"metadata":{"labels":{"shard.alpha.sharding.timebertt.dev/%s":%q}}}`, f.name, shard)))).To(Succeed())
			}
			f.Eventually(f.misplaced).Should(BeEmpty())
		}
	}
	f.Consistently(func() map[string]int {
		f.mu.Lock()
		defer f.mu.Unlock()
		sums := map[string]int{}
		for resource, shards := range f.counts.Objects {
			for shard, count := range shards {
				if shard != "" { // objects that are not in the ring have none
					sums[resource.Resource] += count
				}
			}
		}
		return sums
	}, "1s").Should(Equal(map[string]int{"configmaps": n, "secrets": n, "runtimeclasses": n / 10, "serviceaccounts": n / 10}))
}

// TestConcurrentWritesOfOtherClients change the objects and remove labels all the time.
func TestConcurrentWritesOfOtherClients(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.create(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var busy sync.WaitGroup
	busy.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("%s-%d", f.Namespace, i%n)
			object := &corev1.ConfigMap{ObjectMeta: f.meta(name)}
			_ = f.Client.Patch(ctx, object, client.RawPatch("application/merge-patch+json",
				fmt.Appendf(nil, `{"data":{"i":"%d"},"metadata":{"labels":{"shard.alpha.sharding.timebertt.dev/%s":null}}}`, i, f.name)))
		}
	})
	f.run(t, func(o *moves.Options) { o.SyncPeriod = 100 * time.Millisecond })
	f.Consistently(func() error { return ctx.Err() }, "2s").Should(Succeed())
	cancel()
	busy.Wait()
	f.Eventually(f.misplaced).Should(BeEmpty())
}

// TestMembersChangeDuringMoves changes the members repeatedly.
func TestMembersChangeDuringMoves(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.create(t, n)
	f.run(t, func(o *moves.Options) { o.ConcurrentMoves = 1 })
	for i := range 20 {
		f.setMembers("a", fmt.Sprintf("shard-%d", i))
		time.Sleep(20 * time.Millisecond)
	}
	f.setMembers("x", "y")
	f.Eventually(f.misplaced).Should(BeEmpty())
}

// TestReturningShardGetsItsShare removes a shard and adds it again.
func TestReturningShardGetsItsShare(t *testing.T) {
	f := setUp(t, "a", "b")
	f.create(t, n)
	f.run(t)
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.setMembers("a")
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.setMembers("a", "b")
	f.Eventually(func() int { return len(f.drained(configMapKind)) }).Should(BeNumerically(">", 0))
}

// TestReconcileObjectFollowsChangeOfMembers has the members change after the first write.
func TestReconcileObjectFollowsChangeOfMembers(t *testing.T) {
	f := setUp(t, "a")
	f.create(t, 1)
	client, err := metadata.NewForConfig(f.Config)
	f.Expect(err).NotTo(HaveOccurred())
	mover := moves.New(moves.Options{
		Metadata: client, Rings: &f.rings, Members: f, ConcurrentMoves: 1, Clock: clock.RealClock{},
		Holders: func(context.Context, string) (map[string]bool, error) { return nil, nil },
		Selects: func(*catalog.Ring, string) bool { return true },
		OnWrite: func(_ string, _ schema.GroupResource, action assignment.Action, _ time.Duration) {
			f.mu.Lock()
			first := len(f.writes) == 0
			f.writes[action]++
			f.mu.Unlock()
			if first { // the owner dies, and another shard joins
				f.setMembers("b")
			}
		},
	})
	resource := f.rings.Get(f.name).Resource(schema.GroupResource{Resource: "configmaps"})
	for name := range f.objects(configMapKind) {
		object, err := client.Resource(resource.Resource).Namespace(f.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(mover.ReconcileObject(t.Context(), f.name, resource, object)).To(Succeed())
		f.Expect(f.objects(configMapKind)[name]).To(HaveKeyWithValue(shardingv1alpha1.LabelShard(f.name), "b"))
	}
	f.Expect(f.written()).To(Equal(map[assignment.Action]int{assignment.Assign: 2}))
}
