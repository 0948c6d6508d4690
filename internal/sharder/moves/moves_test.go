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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
)

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
