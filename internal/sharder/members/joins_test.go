package members_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// timedTracker is a tracker in a bubble, where time passes only while all wait.
type timedTracker struct {
	*members.Tracker
	t            *testing.T
	calculations atomic.Int64
}

func inBubble(t *testing.T, test func(f *timedTracker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &timedTracker{t: t}
		f.Tracker = members.New(clock.RealClock{}, func(string) { f.calculations.Add(1) })
		f.Declare("ring", nil)
		test(f)
	})
}

func (f *timedTracker) join(names ...string) {
	for _, name := range names {
		f.Observe(lease("default", name, name, start))
	}
}

func (f *timedTracker) leave(name string) { f.Observe(lease("default", name, "", start)) }

// expect compares the shards, and how often they have changed so far.
func (f *timedTracker) expect(calculations int, shards ...string) {
	f.t.Helper()
	synctest.Wait()
	current, _ := f.Ring("ring")
	if diff := cmp.Diff(shards, current.Shards()); diff != "" {
		f.t.Errorf("%s", diff)
	}
	if int(f.calculations.Load()) != calculations {
		f.t.Errorf("the ring has changed %d times, want %d", f.calculations.Load(), calculations)
	}
}

func TestJoinsAreDebounced(t *testing.T) {
	inBubble(t, func(f *timedTracker) {
		f.join("a")
		f.expect(1, "a") // at once
		f.join("b", "c")
		f.expect(1, "a")
		for _, shard := range f.Shards("ring") {
			if shard.State != membership.Ready {
				t.Errorf("%s is %s: its state does not wait for the ring", shard.Name, shard.State)
			}
		}
		_, changed := f.Ring("ring")
		time.Sleep(time.Second)
		f.join("d") // does not make the others wait for longer
		f.expect(1, "a")
		time.Sleep(time.Second)
		f.expect(2, "a", "b", "c", "d")
		<-changed
		time.Sleep(10 * time.Second)
		f.expect(2, "a", "b", "c", "d")
		f.join("e")
		f.expect(3, "a", "b", "c", "d", "e") // at once again
	})
}

// TestManyJoins has one shard join every 100 ms for 30 s.
func TestManyJoins(t *testing.T) {
	inBubble(t, func(f *timedTracker) {
		for i := range 300 {
			f.join(fmt.Sprintf("shard-%03d", i))
			time.Sleep(100 * time.Millisecond)
			current, _ := f.Ring("ring")
			if late := i + 1 - len(current.Shards()); late > 20 {
				t.Fatalf("%d shards wait, some of them for more than 2 s", late)
			}
		}
		if f.calculations.Load() > 30 {
			t.Errorf("the ring has changed %d times in 30 s", f.calculations.Load())
		}
	})
}

func TestDeparturesTakeEffectAtOnce(t *testing.T) {
	inBubble(t, func(f *timedTracker) {
		f.join("a", "b")
		time.Sleep(5 * time.Second)
		f.expect(2, "a", "b")
		f.join("c", "d", "e")
		f.expect(3, "a", "b", "c")
		f.leave("a")
		f.expect(4, "b", "c", "d", "e") // with those that wait
		f.join("f")
		leaving := lease("default", "b", "b", start)
		leaving.Annotations = map[string]string{shardingv1alpha1.AnnotationLeaving: "true"}
		f.Observe(leaving)
		f.expect(5, "c", "d", "e", "f")
		f.join("g")
		f.Forget(types.NamespacedName{Namespace: "default", Name: "c"})
		f.expect(6, "d", "e", "f", "g")
		f.join("h")
		f.leave("h") // nothing remains to be done
		time.Sleep(5 * time.Second)
		f.expect(6, "d", "e", "f", "g")
		f.leave("d")
		f.join("d") // a shard that restarts need not wait for its own departure
		f.expect(8, "d", "e", "f", "g")
	})
}

// TestObjectsDoNotMoveToExpiredShards lets all shards miss their renewals. They are declared dead one after the other, and
// the ring changes when one of them is back, or none is left.
func TestObjectsDoNotMoveToExpiredShards(t *testing.T) {
	inBubble(t, func(f *timedTracker) {
		f.join("a", "b", "c")
		time.Sleep(5 * time.Second)
		f.expect(2, "a", "b", "c")
		time.Sleep(membership.DefaultDuration)
		f.leave("a") // the sharder has taken its Lease over
		f.expect(2, "a", "b", "c")
		f.Observe(lease("default", "b", "b", start.Add(time.Second))) // renewed
		f.expect(3, "b", "c")
		time.Sleep(2 * membership.DefaultDuration)
		f.leave("b")
		f.expect(3, "b", "c")
		f.leave("c")
		f.expect(4)
	})
}

// TestListedLeasesAreMembersAtOnce has a process that starts: shards that were there before have objects.
func TestListedLeasesAreMembersAtOnce(t *testing.T) {
	inBubble(t, func(f *timedTracker) {
		for _, name := range []string{"a", "b", "c"} {
			f.ObserveListed(lease("default", name, name, start))
		}
		f.expect(3, "a", "b", "c")
	})
}

func TestDroppedRingIsNotChangedLater(t *testing.T) {
	inBubble(t, func(f *timedTracker) {
		f.join("a", "b")
		f.Drop("ring")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if current, _ := f.Ring("ring"); current != nil || f.calculations.Load() != 1 {
			t.Errorf("after %d calculations it is %v", f.calculations.Load(), current)
		}
		f.Declare("ring", nil)
		f.expect(2, "a", "b")
	})
}

// TestTablesAreEvicted counts timers: one is set while there are tables that may be evicted.
func TestTablesAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := clocktesting.NewFakeClock(start)
		tracker := members.New(fake, func(string) {})
		tracker.Declare("ring", nil)
		for _, name := range []string{"a", "b"} {
			tracker.ObserveListed(lease("default", name, name, start))
		}
		expect := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := fake.Waiters(); got != want {
				t.Errorf("%s: %d timers", when, got)
			}
		}
		expect("nobody has asked for an owner", 0)
		current, _ := tracker.Ring("ring")
		for range 3 {
			current.Owner("key")
			expect("in use", 1)
			fake.Step(time.Minute)
			expect("it was used in the last minute", 1)
		}
		fake.Step(time.Minute)
		expect("it was not", 0)
	})
}

// TestRenewalCostIsConstant counts allocations, in a small ring and in a large one among many.
func TestRenewalCostIsConstant(t *testing.T) {
	cost := func(rings, shards int) float64 {
		f := newFixture()
		leases := make([]*coordinationv1.Lease, 0, rings*shards)
		for r := range rings {
			f.Declare(fmt.Sprint("ring-", r), nil)
			for s := range shards {
				l := created("default", fmt.Sprintf("shard-%d-%d", r, s), s, "")
				l.Labels[shardingv1alpha1.LabelControllerRing] = fmt.Sprint("ring-", r)
				f.Observe(l)
				leases = append(leases, l)
			}
		}
		n := 0
		return testing.AllocsPerRun(100, func() {
			renewed := leases[n%len(leases)]
			n++
			f.clock.SetTime(start.Add(time.Duration(n) * time.Second))
			renewed.Spec.RenewTime.Time = f.clock.Now()
			f.Observe(renewed)
			if shard, _ := f.Shard(types.NamespacedName{Namespace: "default", Name: renewed.Name}); shard.State != membership.Ready {
				t.Fatal("it is not ready")
			}
		})
	}
	if few, many := cost(1, 3), cost(20, 300); many > few {
		t.Errorf("a renewal allocates %v times in a small ring, and %v times in a large one", few, many)
	}
}
