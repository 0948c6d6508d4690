package observer_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/demo/observer"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/demo/view"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// fixture is an observer with a fake clock.
type fixture struct {
	*observer.Observer
	clock   *testclock.FakePassiveClock
	changes int
}

func setUp(mode string) *fixture {
	f := &fixture{clock: testclock.NewFakePassiveClock(start)}
	f.Observer = observer.New(observer.Options{
		Ring: "ring", Namespace: "system", Mode: mode, Object: "website", Clock: f.clock, Changed: func() { f.changes++ },
	})
	return f
}

func site(name, shard string) observer.Object {
	return observer.Object{NamespacedName: types.NamespacedName{Namespace: "project", Name: name}, Shard: shard, Phase: "Ready", Ready: true}
}

func (f *fixture) state(instances ...string) view.State {
	var processes []supervisor.ProcessStatus
	for _, name := range instances {
		processes = append(processes, supervisor.ProcessStatus{Name: name, Phase: supervisor.Running, PID: 1})
	}
	state := view.State{}
	f.FillState(&state, processes, nil)
	return state
}

// TestMoves changes the owner of an object several times.
func TestMoves(t *testing.T) {
	f := setUp(view.ModeShard)
	f.SetObject(site("shop", ""))
	f.SetObject(site("shop", "a"))
	if got := f.state(); got.Moved != 0 {
		t.Errorf("the first assignment counts as a move: %v", got.Moves)
	}
	f.clock.SetTime(start.Add(time.Second))
	f.SetObject(site("shop", ""))
	f.SetObject(site("shop", "b"))
	f.SetObject(site("shop", "b"))
	f.clock.SetTime(start.Add(2 * time.Second))
	f.SetObject(site("shop", "a"))
	want := []view.Move{
		{At: start.Add(time.Second), Object: "project/shop", From: "a", To: "b"},
		{At: start.Add(2 * time.Second), Object: "project/shop", From: "b", To: "a"},
	}
	got := f.state()
	if diff := cmp.Diff(want, got.Moves); diff != "" || got.Moved != 2 {
		t.Errorf("%d moves: %s", got.Moved, diff)
	}
	f.RemoveObject(site("shop", "").NamespacedName)
	f.SetObject(site("shop", "b"))
	if got := f.state(); got.Moved != 2 {
		t.Errorf("a new object of the same name counts as moved: %v", got.Moves)
	}
	if f.changes == 0 {
		t.Error("Changed was not called")
	}
}

func TestCounts(t *testing.T) {
	f := setUp(view.ModeShard)
	f.ObserveLease(leaseFor("a", "a", start))
	f.SetObject(site("one", "a"))
	f.SetObject(site("two", "a"))
	f.SetObject(site("five", "dead"))
	draining := site("three", "a")
	draining.Draining, draining.Ready = true, false
	f.SetObject(draining)
	f.SetObject(site("four", ""))
	state := f.state("a", "b")
	want := view.Objects{Name: "website", Total: 5, Ready: 4, Unassigned: 1, Orphaned: 1, Draining: 1}
	if diff := cmp.Diff(want, state.Objects); diff != "" {
		t.Error(diff)
	}
	if a, b := state.Instances[0], state.Instances[1]; a.Objects != 3 || a.Draining != 1 || b.Objects != 0 {
		t.Errorf("got %+v, %+v", a, b)
	}
}

// TestLead ignores shard labels of an earlier mode.
func TestLead(t *testing.T) {
	f := setUp(view.ModeLead)
	f.SetObject(site("one", "a"))
	f.SetObject(site("two", ""))
	if state := f.state("a", "b"); state.Instances[0].Objects != 0 || state.Objects.Unassigned != 0 {
		t.Errorf("objects are counted without a leader: %+v", state)
	}
	f.SetLeader(types.NamespacedName{Namespace: "system", Name: "ring-leader"}, "b")
	state := f.state("a", "b")
	if a, b := state.Instances[0], state.Instances[1]; a.Leads || a.Objects != 0 || !b.Leads || b.Objects != 2 || !a.Candidate {
		t.Errorf("got %+v, %+v", a, b)
	}
	if objects := f.Objects(); len(objects) != 2 || objects[0].Name != "one" || objects[0].Shard != "b" {
		t.Errorf("got %v", objects)
	}
}

func TestInProcess(t *testing.T) {
	f := setUp(view.ModeInProcess)
	f.SetLeader(types.NamespacedName{Namespace: "system", Name: "ring-sharder"}, "a")
	f.SetLeader(types.NamespacedName{Namespace: "system", Name: "ring-leader"}, "b") // of an earlier mode
	state := f.state("a", "b")
	if a, b := state.Instances[0], state.Instances[1]; !a.Leads || b.Leads {
		t.Errorf("got %+v, %+v", a, b)
	}
}

func TestSharders(t *testing.T) {
	f := setUp(view.ModeShard)
	f.SetLeader(types.NamespacedName{Namespace: shardingv1alpha1.NamespaceSystem, Name: "sharder"}, "sharder-1")
	state := view.State{}
	f.FillState(&state, nil, []supervisor.ProcessStatus{{Name: "sharder-0"}, {Name: "sharder-1"}})
	if zero, one := state.Sharders[0], state.Sharders[1]; zero.Leads || !one.Leads || !zero.Candidate {
		t.Errorf("got %+v, %+v", zero, one)
	}
}

func leaseFor(name, holder string, renewed time.Time) *coordinationv1.Lease {
	seconds, at := int32(15), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "system", Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: "ring"},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &at, RenewTime: &at},
	}
}

// TestStates lets a shard expire and die.
func TestStates(t *testing.T) {
	f := setUp(view.ModeShard)
	f.ObserveLease(leaseFor("a", "a", start))
	f.ObserveLease(leaseFor("b", "b", start))
	state := func() string { return f.state("a", "c").Instances[0].Lease }
	if got := state(); got != "ready" {
		t.Errorf("got %s", got)
	}
	f.clock.SetTime(start.Add(15 * time.Second))
	f.ObserveLease(leaseFor("b", "b", start.Add(time.Minute))) // the clock of another machine does not count
	if got := state(); got != "expired" {
		t.Errorf("got %s", got)
	}
	f.ObserveLease(leaseFor("a", shardingv1alpha1.IdentityShardLeaseController, start))
	if got := state(); got != "dead" {
		t.Errorf("got %s", got)
	}
	if got := f.state("c").Instances[0].Lease; got != "" {
		t.Errorf("without a Lease: got %s", got)
	}
	f.ObserveLease(leaseFor("a", "", start))
	if got := state(); got != view.LeaseLeft {
		t.Errorf("released: got %s", got)
	}
	leaving := leaseFor("a", "a", start)
	leaving.Annotations = map[string]string{shardingv1alpha1.AnnotationLeaving: "true"}
	f.ObserveLease(leaving)
	if got := f.state("a").Instances[0]; !got.Leaving {
		t.Errorf("got %+v", got)
	}
}

// TestEarlierLeasesAreIgnored has Leases of earlier processes until the current ones renew them.
func TestEarlierLeasesAreIgnored(t *testing.T) {
	elected := func(renewed time.Time) *coordinationv1.Lease {
		l := leaseFor("ring-sharder", "a_uuid", renewed)
		l.Labels = nil
		return l
	}
	f := setUp(view.ModeInProcess)
	stale := func() []bool {
		state, since := view.State{}, start.Add(time.Second)
		f.FillState(&state, []supervisor.ProcessStatus{{Name: "a", Since: since}, {Name: "b", Since: since}}, nil)
		return []bool{state.Instances[0].Stale, state.Instances[1].Stale}
	}
	for _, step := range []struct {
		lease *coordinationv1.Lease
		want  []bool
	}{
		{leaseFor("a", "a", start), []bool{true, true}},
		{elected(start), []bool{true, true}},
		{leaseFor("b", "b", start.Add(2*time.Second)), []bool{true, false}},
		{leaseFor("a", "a", start.Add(2*time.Second)), []bool{true, false}},
		{elected(start.Add(2 * time.Second)), []bool{false, false}},
	} {
		f.ObserveLease(step.lease)
		if diff := cmp.Diff(step.want, stale()); diff != "" {
			t.Errorf("after %s: %s", step.lease.Name, diff)
		}
	}
}

// TestLeader reads the leader from a leader election Lease.
func TestLeader(t *testing.T) {
	leaseHeldBy := func(holder, manager, fields string) *coordinationv1.Lease {
		l := leaseFor("sharder", holder, start)
		l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}}
		return l
	}
	const renews, other = `{"f:spec":{"f:renewTime":{}}}`, `{"f:spec":{"f:acquireTime":{}}}`
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		want  string
	}{
		"identity of an instance":    {leaseHeldBy("webhosting-operator-1_uuid", "webhosting-operator-1", renews), "webhosting-operator-1"},
		"identity of the machine":    {leaseHeldBy("laptop_uuid", "sharder-1", renews), "sharder-1"},
		"renewed by another process": {leaseHeldBy("laptop_uuid", "sharder-1", other), "laptop"},
		"no holder":                  {leaseHeldBy("", "sharder-1", renews), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := observer.LeaderOf(test.lease); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestHistoryIsLimited records more moves and events than are kept.
func TestHistoryIsLimited(t *testing.T) {
	f := setUp(view.ModeShard)
	const many = 5000
	for i := range many {
		f.RecordEvent("instance", strconv.Itoa(i), false)
		f.SetObject(site("shop", strconv.Itoa(i%2)))
	}
	state := f.state()
	if n := len(state.Events); n >= many || state.Events[n-1].Message != strconv.Itoa(many-1) || state.Events[n-1].Number != many {
		t.Errorf("%d events, the last is %+v", n, state.Events[n-1])
	}
	if len(state.Moves) >= many-1 || state.Moved != many-1 {
		t.Errorf("%d of %d moves", len(state.Moves), state.Moved)
	}
}

func TestInstancesAreSortedByNumber(t *testing.T) {
	f := setUp(view.ModeShard)
	var got []string
	for _, instance := range f.state("ring-10", "ring-9", "ring-0").Instances {
		got = append(got, instance.Name)
	}
	if diff := cmp.Diff([]string{"ring-0", "ring-9", "ring-10"}, got); diff != "" {
		t.Error(diff)
	}
}
