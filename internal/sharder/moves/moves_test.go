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

const patience = rig.Timeout

var (
	configMaps = catalog.Kind{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespaced: true}
	runtimes   = catalog.Kind{GroupKind: schema.GroupKind{Group: "node.k8s.io", Kind: "RuntimeClass"}}
)

// fixture is a ring of ConfigMaps with Secrets and of RuntimeClasses with ServiceAccounts, on a real
// API server. The shards are played by the tests.
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
	f.SetDefaultEventuallyTimeout(patience)
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

// Ring makes the fixture the Members of its ring.
func (f *fixture) Ring(string) (*ring.Ring, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members, f.changed
}

// become changes the members.
func (f *fixture) become(shards ...string) {
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
		Report: func(_ string, _ schema.GroupResource, action assignment.Action, _ time.Duration) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.writes[action]++
		},
		Synced: func(_ string, counts moves.Counts, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if err != nil {
				t.Logf("sync: %v", err)
			}
			f.counts = counts
			f.synced++
		},
		Drained: func(_ string, report moves.DrainReport) {
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
			t.Errorf("it took %s to end", took)
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

// ownedBy names the main objects of a kind that the ring gives to a shard.
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

// misplaced names the objects that are not where the ring says, or are being drained.
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
	f.become("a", "c")
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.Expect(f.written()).To(Equal(map[assignment.Action]int{assignment.Assign: dead}), "only the dead shard's objects, one write each")
}

// TestShardThatIsNotKnownYet has another replica see a shard join first, and give it objects. They must not be
// taken from it.
func TestShardThatIsNotKnownYet(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.create(t, n)
	f.run(t)
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.forgetWrites()
	f.mu.Lock()
	f.alive = map[string]bool{"b": true}
	before := f.synced
	f.mu.Unlock()
	f.become("a", "c", "d") // this process knows nothing of b; a new member makes it look at everything
	f.Eventually(func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.synced
	}).Should(BeNumerically(">", before))
	f.Expect(f.written()).NotTo(HaveKey(assignment.Assign))

	t.Log("It is dead after all")
	f.mu.Lock()
	f.alive = nil
	f.mu.Unlock()
	f.become("a", "c")
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.Expect(f.written()).To(HaveKey(assignment.Assign))
}

// letGo plays a shard of another library: it removes both labels, and the webhook, which does not
// run here, would assign the object in the same write.
func (f *fixture) letGo(ctx context.Context, name string) {
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

func TestNewShardGetsItsShareByDraining(t *testing.T) {
	f := setUp(t, "a", "b")
	f.create(t, n)
	f.run(t)
	f.Eventually(f.misplaced).Should(BeEmpty())
	before := f.objects(secretKind)
	f.forgetWrites()
	f.become("a", "b", "c")

	// The sharder asks for every object of the new share, and names the destination. Nothing else moves before the shards answer.
	configMapsOfC, runtimeClassesOfC := f.ownedBy("c", configMapKind, configMaps), f.ownedBy("c", runtimeClassKind, runtimes)
	var asked map[string]string
	f.Eventually(func() []string { asked = f.drained(configMapKind); return slices.Sorted(maps.Keys(asked)) }).Should(Equal(configMapsOfC))
	f.Eventually(func() []string { return slices.Sorted(maps.Keys(f.drained(runtimeClassKind))) }).Should(Equal(runtimeClassesOfC))
	f.Eventually(func() int { return f.written()[assignment.Drain] }).Should(Equal(len(configMapsOfC) + len(runtimeClassesOfC)))
	f.Eventually(func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.drains.Outstanding }).Should(BeNumerically(">", 0))
	for name, destination := range asked {
		f.Expect(destination).To(Equal("c"), name)
	}
	f.Consistently(func() map[string]map[string]string { return f.objects(secretKind) }, "1500ms").
		Should(Equal(before), "children stay with their controllers")

	// One shard lets go, and the children follow.
	for name := range asked {
		f.letGo(t.Context(), name)
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

// TestDrainIsTakenBack lets the new shard go away again before anybody has let go.
func TestDrainIsTakenBack(t *testing.T) {
	f := setUp(t, "a", "b")
	f.create(t, n)
	f.run(t)
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.become("a", "b", "c")
	f.Eventually(func() int { return len(f.drained(configMapKind)) }).Should(BeNumerically(">", 0))
	f.become("a", "b")
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.Expect(f.written()[assignment.Assign]).To(Equal(all), "nothing was moved")
}

func TestOverdueDrains(t *testing.T) {
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
			f.become("a", "b", "c")
			if moved {
				f.Eventually(f.misplaced).Should(BeEmpty())
				return
			}
			f.Eventually(func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.drains.Overdue }).Should(BeNumerically(">", 0))
			f.Consistently(func() int { return len(f.drained(configMapKind)) }, "2s").Should(BeNumerically(">", 0))
		})
	}
}

// TestNothingIsWrittenWithoutNeed syncs all the time.
func TestNothingIsWrittenWithoutNeed(t *testing.T) {
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

// TestChildrenTakeTurns has somebody give children to shards that do not have their controllers. Each kind has its turn, and
// those that do not are not forgotten.
func TestChildrenTakeTurns(t *testing.T) {
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
				if shard != "" { // others' objects have none
					sums[resource.Resource] += count
				}
			}
		}
		return sums
	}, "1s").Should(Equal(map[string]int{"configmaps": n, "secrets": n, "runtimeclasses": n / 10, "serviceaccounts": n / 10}))
}

// TestOthersWriteToo has somebody write the objects all the time, and take labels away.
func TestOthersWriteToo(t *testing.T) {
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

// TestChangeInTheMiddle changes the members again and again while objects are being moved.
func TestChangeInTheMiddle(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.create(t, n)
	f.run(t, func(o *moves.Options) { o.ConcurrentMoves = 1 })
	for i := range 20 {
		f.become("a", fmt.Sprintf("shard-%d", i))
		time.Sleep(20 * time.Millisecond)
	}
	f.become("x", "y")
	f.Eventually(f.misplaced).Should(BeEmpty())
}

// TestComesBack has a shard that leaves and joins again under its name. It gets its share again.
func TestComesBack(t *testing.T) {
	f := setUp(t, "a", "b")
	f.create(t, n)
	f.run(t)
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.become("a")
	f.Eventually(f.misplaced).Should(BeEmpty())
	f.become("a", "b")
	f.Eventually(func() int { return len(f.drained(configMapKind)) }).Should(BeNumerically(">", 0))
}

// TestSettle gives single objects their shards, also when the members change in the very moment.
func TestSettle(t *testing.T) {
	f := setUp(t, "a")
	f.create(t, 1)
	client, err := metadata.NewForConfig(f.Config)
	f.Expect(err).NotTo(HaveOccurred())
	mover := moves.New(moves.Options{
		Metadata: client, Rings: &f.rings, Members: f, ConcurrentMoves: 1, Clock: clock.RealClock{},
		Holders: func(context.Context, string) (map[string]bool, error) { return nil, nil },
		Selects: func(*catalog.Ring, string) bool { return true },
		Report: func(_ string, _ schema.GroupResource, action assignment.Action, _ time.Duration) {
			f.mu.Lock()
			first := len(f.writes) == 0
			f.writes[action]++
			f.mu.Unlock()
			if first { // the shard that has just got it is dead, and another one is there
				f.become("b")
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
