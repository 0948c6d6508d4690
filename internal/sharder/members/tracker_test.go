package members_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fixture is a tracker with its clock and the number of calculations.
type fixture struct {
	*members.Tracker
	clock        *clocktesting.FakePassiveClock
	calculations int
}

func newFixture() *fixture {
	f := &fixture{clock: clocktesting.NewFakePassiveClock(start)}
	f.Tracker = members.New(f.clock, func(string) { f.calculations++ })
	return f
}

// lease renewed at a time that the shard's own clock says.
func lease(namespace, name, holder string, renewed time.Time) *coordinationv1.Lease {
	duration, micro := int32(15), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{shardingv1alpha1.LabelControllerRing: "ring"},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &duration, AcquireTime: &micro, RenewTime: &micro,
		},
	}
}

func (f *fixture) shards(t *testing.T) []string {
	t.Helper()
	current, _ := f.Ring("ring")
	if current == nil {
		t.Fatal("the ring is not known")
	}
	return current.Shards()
}

func TestRingFollowsLeases(t *testing.T) {
	f := newFixture()
	f.Observe(lease("default", "a", "a", start))
	if current, _ := f.Ring("ring"); current != nil {
		t.Error("a ring is known that nobody declared")
	}
	f.Declare("ring", nil)
	if diff := cmp.Diff([]string{"a"}, f.shards(t)); diff != "" {
		t.Error(diff)
	}

	_, changed := f.Ring("ring")
	before := f.calculations
	for second := range 5 {
		f.Observe(lease("default", "a", "a", start.Add(time.Duration(second)*time.Second)))
	}
	select {
	case <-changed:
		t.Error("renewals were reported as a change")
	default:
	}
	if f.calculations != before {
		t.Errorf("renewals made it calculate %d times", f.calculations-before)
	}

	f.Observe(lease("default", "b", "b", start))
	<-changed
	if diff := cmp.Diff([]string{"a", "b"}, f.shards(t)); diff != "" {
		t.Error(diff)
	}
	f.Observe(lease("default", "a", "", start))
	if diff := cmp.Diff([]string{"b"}, f.shards(t)); diff != "" {
		t.Error(diff)
	}
	f.Forget(types.NamespacedName{Namespace: "default", Name: "b"})
	if got := f.shards(t); len(got) != 0 {
		t.Errorf("the shards are %v", got)
	}

	_, changed = f.Ring("ring")
	f.Drop("ring")
	<-changed
	if current, _ := f.Ring("ring"); current != nil {
		t.Error("the ring is still known")
	}
}

// TestLeavingShardIsMemberWithoutKeys so that it can hand its objects over.
func TestLeavingShardIsMemberWithoutKeys(t *testing.T) {
	f := newFixture()
	f.Declare("ring", nil)
	f.Observe(lease("default", "a", "a", start))
	f.Observe(lease("default", "b", "b", start))
	_, changed := f.Ring("ring")
	leaving := lease("default", "b", "b", start)
	leaving.Annotations = map[string]string{shardingv1alpha1.AnnotationLeaving: "true"}
	f.Observe(leaving)
	<-changed
	if diff := cmp.Diff([]string{"a"}, f.shards(t)); diff != "" {
		t.Error(diff)
	}
	current, changed := f.Ring("ring")
	if !current.Has("b") || !current.IsLeaving("b") {
		t.Error("b is not a member any more, although it holds its lease")
	}
	leaving.Spec.HolderIdentity = new("")
	f.Observe(leaving)
	<-changed
	if current, _ := f.Ring("ring"); current.Has("b") {
		t.Error("b has left and is still a member")
	}
}

// TestOtherClocksDoNotCount has shards whose clocks are off by an hour, both ways.
func TestOtherClocksDoNotCount(t *testing.T) {
	f := newFixture()
	f.Declare("ring", nil)
	for second := range 120 {
		now := start.Add(time.Duration(second) * time.Second)
		f.clock.SetTime(now)
		f.Observe(lease("default", "early", "early", now.Add(time.Hour)))
		f.Observe(lease("default", "late", "late", now.Add(-time.Hour)))
		for _, shard := range f.Shards("ring") {
			if shard.State != membership.Ready {
				t.Fatalf("after %d s %s is %s", second, shard.Name, shard.State)
			}
		}
	}
}

// TestMissedRenewalsAreNoticed stops one of two shards.
func TestMissedRenewalsAreNoticed(t *testing.T) {
	f := newFixture()
	f.Declare("ring", nil)
	f.Observe(lease("default", "silent", "silent", start))
	want := map[int]membership.State{0: membership.Ready, 14: membership.Ready, 15: membership.Expired, 17: membership.Uncertain}
	for second := range 20 {
		now := start.Add(time.Duration(second) * time.Second)
		f.clock.SetTime(now)
		f.Observe(lease("default", "loud", "loud", now))
		f.Observe(lease("default", "silent", "silent", start)) // a resync does not renew
		shards := f.Shards("ring")
		if shards[0].Name != "loud" || shards[0].State != membership.Ready {
			t.Fatalf("after %d s: %v", second, shards[0])
		}
		if state, asserted := want[second]; asserted && shards[1].State != state {
			t.Errorf("after %d s it is %s, want %s", second, shards[1].State, state)
		}
	}
	if diff := cmp.Diff([]string{"loud", "silent"}, f.shards(t)); diff != "" {
		t.Errorf("being silent alone must not change the ring:\n%s", diff)
	}
}

func TestInvalidLeasesDoNotJoin(t *testing.T) {
	f := newFixture()
	f.Declare("ring", []string{"operators"})
	other := lease("operators", "other-ring", "other-ring", start)
	other.Labels[shardingv1alpha1.LabelControllerRing] = "other"
	long := strings.Repeat("x", 64)
	for _, l := range []*coordinationv1.Lease{
		lease("operators", "good", "good", start),
		lease("elsewhere", "intruder", "intruder", start),
		lease("operators", long, long, start),
		lease("operators", "foreign", "somebody", start),
		other,
	} {
		f.Observe(l)
	}
	if diff := cmp.Diff([]string{"good"}, f.shards(t)); diff != "" {
		t.Error(diff)
	}
	f.Declare("ring", nil)
	if diff := cmp.Diff([]string{"good", "intruder"}, f.shards(t)); diff != "" {
		t.Errorf("without namespaces all may join:\n%s", diff)
	}
	// A Lease that changes its ring leaves the first one.
	moved := lease("operators", "good", "good", start)
	moved.Labels[shardingv1alpha1.LabelControllerRing] = "other"
	f.Observe(moved)
	if diff := cmp.Diff([]string{"intruder"}, f.shards(t)); diff != "" {
		t.Error(diff)
	}
}
