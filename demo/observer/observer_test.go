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

// fixture is a scene with a clock that is set by hand.
type fixture struct {
	*observer.Scene
	clock *testclock.FakePassiveClock
	news  int
}

func setUp(mode string) *fixture {
	f := &fixture{clock: testclock.NewFakePassiveClock(start)}
	f.Scene = observer.New(observer.Options{
		Ring: "ring", Namespace: "system", Mode: mode, Object: "website", Clock: f.clock, Changed: func() { f.news++ },
	})
	return f
}

func site(name, shard string) observer.Object {
	return observer.Object{NamespacedName: types.NamespacedName{Namespace: "project", Name: name}, Shard: shard, Phase: "Ready", Ready: true}
}

func (f *fixture) show(instances ...string) view.State {
	var members []supervisor.Member
	for _, name := range instances {
		members = append(members, supervisor.Member{Name: name, Phase: supervisor.Running, PID: 1})
	}
	state := view.State{}
	f.Show(&state, members, nil)
	return state
}

// TestMoves follows one object on its way.
func TestMoves(t *testing.T) {
	f := setUp(view.ModeShard)
	f.See(site("shop", ""))
	f.See(site("shop", "a"))
	if got := f.show(); got.Moved != 0 {
		t.Errorf("to be assigned is no move: %v", got.Moves)
	}
	f.clock.SetTime(start.Add(time.Second))
	f.See(site("shop", ""))
	f.See(site("shop", "b"))
	f.See(site("shop", "b"))
	f.clock.SetTime(start.Add(2 * time.Second))
	f.See(site("shop", "a"))
	want := []view.Move{
		{At: start.Add(time.Second), Object: "project/shop", From: "a", To: "b"},
		{At: start.Add(2 * time.Second), Object: "project/shop", From: "b", To: "a"},
	}
	got := f.show()
	if diff := cmp.Diff(want, got.Moves); diff != "" || got.Moved != 2 {
		t.Errorf("%d moves: %s", got.Moved, diff)
	}
	f.Miss(site("shop", "").NamespacedName)
	f.See(site("shop", "b"))
	if got := f.show(); got.Moved != 2 {
		t.Errorf("another of the same name has not moved: %v", got.Moves)
	}
	if f.news == 0 {
		t.Error("nobody was told")
	}
}

func TestCounts(t *testing.T) {
	f := setUp(view.ModeShard)
	f.See(site("one", "a"))
	f.See(site("two", "a"))
	draining := site("three", "a")
	draining.Draining, draining.Ready = true, false
	f.See(draining)
	f.See(site("four", ""))
	state := f.show("a", "b")
	want := view.Objects{Name: "website", Total: 4, Ready: 3, Unassigned: 1, Draining: 1}
	if diff := cmp.Diff(want, state.Objects); diff != "" {
		t.Error(diff)
	}
	if a, b := state.Instances[0], state.Instances[1]; a.Objects != 3 || a.Draining != 1 || b.Objects != 0 {
		t.Errorf("got %+v, %+v", a, b)
	}
}

// TestLead has labels from another time, which mean nothing here.
func TestLead(t *testing.T) {
	f := setUp(view.ModeLead)
	f.See(site("one", "a"))
	f.See(site("two", ""))
	if state := f.show("a", "b"); state.Instances[0].Objects != 0 || state.Objects.Unassigned != 0 {
		t.Errorf("nobody leads: %+v", state)
	}
	f.Elect(types.NamespacedName{Namespace: "system", Name: "ring-leader"}, "b")
	state := f.show("a", "b")
	if a, b := state.Instances[0], state.Instances[1]; a.Leads || a.Objects != 0 || !b.Leads || b.Objects != 2 || !a.Candidate {
		t.Errorf("got %+v, %+v", a, b)
	}
	if objects := f.Objects(); len(objects) != 2 || objects[0].Name != "one" || objects[0].Shard != "b" {
		t.Errorf("got %v", objects)
	}
}

func TestInProcess(t *testing.T) {
	f := setUp(view.ModeInProcess)
	f.Elect(types.NamespacedName{Namespace: "system", Name: "ring-sharder"}, "a")
	f.Elect(types.NamespacedName{Namespace: "system", Name: "ring-leader"}, "b") // of another time
	state := f.show("a", "b")
	if a, b := state.Instances[0], state.Instances[1]; !a.Leads || b.Leads {
		t.Errorf("got %+v, %+v", a, b)
	}
}

func TestSharders(t *testing.T) {
	f := setUp(view.ModeShard)
	f.Elect(types.NamespacedName{Namespace: shardingv1alpha1.NamespaceSystem, Name: "sharder"}, "sharder-1")
	state := view.State{}
	f.Show(&state, nil, []supervisor.Member{{Name: "sharder-0"}, {Name: "sharder-1"}})
	if zero, one := state.Sharders[0], state.Sharders[1]; zero.Leads || !one.Leads || !zero.Candidate {
		t.Errorf("got %+v, %+v", zero, one)
	}
}

func lease(name, holder string, renewed time.Time) *coordinationv1.Lease {
	seconds, at := int32(15), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "system", Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: "ring"},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &at, RenewTime: &at},
	}
}

// TestStates sees a shard die.
func TestStates(t *testing.T) {
	f := setUp(view.ModeShard)
	f.SeeLease(lease("a", "a", start))
	f.SeeLease(lease("b", "b", start))
	state := func() string { return f.show("a", "c").Instances[0].Lease }
	if got := state(); got != "ready" {
		t.Errorf("it is %s", got)
	}
	f.clock.SetTime(start.Add(15 * time.Second))
	f.SeeLease(lease("b", "b", start.Add(time.Minute))) // whatever its clock says
	if got := state(); got != "expired" {
		t.Errorf("it is %s", got)
	}
	f.SeeLease(lease("a", shardingv1alpha1.IdentityShardLeaseController, start))
	if got := state(); got != "dead" {
		t.Errorf("it is %s", got)
	}
	if got := f.show("c").Instances[0].Lease; got != "" {
		t.Errorf("one without a Lease is %s", got)
	}
	leaving := lease("a", "a", start)
	leaving.Annotations = map[string]string{shardingv1alpha1.AnnotationLeaving: "true"}
	f.SeeLease(leaving)
	if got := f.show("a").Instances[0]; !got.Leaving {
		t.Errorf("got %+v", got)
	}
}

// TestStale has Leases of earlier processes, until those that run now renew them.
func TestStale(t *testing.T) {
	elected := func(renewed time.Time) *coordinationv1.Lease {
		l := lease("ring-sharder", "a_uuid", renewed)
		l.Labels = nil
		return l
	}
	f := setUp(view.ModeInProcess)
	stale := func() []bool {
		state, since := view.State{}, start.Add(time.Second)
		f.Show(&state, []supervisor.Member{{Name: "a", Since: since}, {Name: "b", Since: since}}, nil)
		return []bool{state.Instances[0].Stale, state.Instances[1].Stale}
	}
	for _, step := range []struct {
		lease *coordinationv1.Lease
		want  []bool
	}{
		{lease("a", "a", start), []bool{true, true}},
		{elected(start), []bool{true, true}},
		{lease("b", "b", start.Add(2*time.Second)), []bool{true, false}},
		{lease("a", "a", start.Add(2*time.Second)), []bool{true, false}},
		{elected(start.Add(2 * time.Second)), []bool{false, false}},
	} {
		f.SeeLease(step.lease)
		if diff := cmp.Diff(step.want, stale()); diff != "" {
			t.Errorf("after %s: %s", step.lease.Name, diff)
		}
	}
}

// TestLeader reads who leads from the Lease of an election.
func TestLeader(t *testing.T) {
	held := func(holder, manager, fields string) *coordinationv1.Lease {
		l := lease("sharder", holder, start)
		l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}}
		return l
	}
	const renews, other = `{"f:spec":{"f:renewTime":{}}}`, `{"f:spec":{"f:acquireTime":{}}}`
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		want  string
	}{
		"an instance":               {held("webhosting-operator-1_uuid", "webhosting-operator-1", renews), "webhosting-operator-1"},
		"a process of this machine": {held("laptop_uuid", "sharder-1", renews), "sharder-1"},
		"which was another before":  {held("laptop_uuid", "sharder-1", other), "laptop"},
		"nobody":                    {held("", "sharder-1", renews), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := observer.LeaderOf(test.lease); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestOldNewsAreForgotten is told more than anybody wants to know.
func TestOldNewsAreForgotten(t *testing.T) {
	f := setUp(view.ModeShard)
	const many = 5000
	for i := range many {
		f.Tell("somebody", strconv.Itoa(i), false)
		f.See(site("shop", strconv.Itoa(i%2)))
	}
	state := f.show()
	if n := len(state.Events); n >= many || state.Events[n-1].What != strconv.Itoa(many-1) || state.Events[n-1].Number != many {
		t.Errorf("%d events, the last is %+v", n, state.Events[n-1])
	}
	if len(state.Moves) >= many-1 || state.Moved != many-1 {
		t.Errorf("%d of %d moves", len(state.Moves), state.Moved)
	}
}

func TestOrder(t *testing.T) {
	f := setUp(view.ModeShard)
	var got []string
	for _, instance := range f.show("ring-10", "ring-9", "ring-0").Instances {
		got = append(got, instance.Name)
	}
	if diff := cmp.Diff([]string{"ring-0", "ring-9", "ring-10"}, got); diff != "" {
		t.Error(diff)
	}
}
