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
