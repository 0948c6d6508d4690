package operator

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// One operator restarts the members of all regions, through the operator of each region, the leader last.
func TestRestart(t *testing.T) {
	t.Parallel()
	state := three()
	w := setting(t, state, "dc1", "dc2", "dc3")
	for _, prefix := range []string{"dc1", "dc2", "dc3"} {
		w.agent(prefix).members = []agent.Member{changed(prefix + "-1")}
	}
	w.reconcile(2, "dc1", "dc2", "dc3")
	if intent := w.view().Intent; intent == nil || describeSteps(intent.Steps) != "restart dc2-1, restart dc3-1, move-leader dc2-1, restart dc1-1" {
		t.Fatalf("it does %v", intent)
	}
	for range 20 {
		w.reconcile(1, "dc1", "dc2", "dc3")
		if intent := w.view().Intent; intent != nil && intent.Steps[intent.StepIndex].Do == "move-leader" {
			state.Leader = 2 // the fake system does what it is asked
		}
	}
	for _, prefix := range []string{"dc1", "dc2", "dc3"} {
		if diff := cmp.Diff([]string{"restart " + prefix + "-1"}, w.agent(prefix).made); diff != "" {
			t.Error(diff)
		}
	}
	view := w.view()
	if len(view.DoneRecords) != 1 || view.DoneRecords[0].Failure != "" || len(view.Sets[pendingForRestart]) > 0 {
		t.Errorf("done: %v, pending: %v", view.DoneRecords, view.Sets)
	}
}

// The agent has seen higher tokens than the store, as after a restore of the store from an old snapshot.
func TestTokenIsRaised(t *testing.T) {
	t.Parallel()
	const newestToken = 1000
	state := three()
	state.Leader = 3
	w := setting(t, state, "dc1", "dc2")
	w.agent("dc2").members, w.agent("dc2").seen = []agent.Member{changed("dc2-1")}, newestToken
	w.reconcile(10, "dc1", "dc2")
	if view := w.view(); len(view.DoneRecords) != 1 || view.DoneRecords[0].Failure != "" || view.Token <= newestToken {
		t.Errorf("done: %v, token %d", view.DoneRecords, view.Token)
	}
	if p := w.agent("dc2").members[0]; !current(p, &w.regions["dc2"].cluster.Spec) {
		t.Errorf("it was not restarted: %v", p)
	}
}

// With the default policy a plan does not wait for a member that stays unhealthy and has to be replaced.
func TestReplacementComesFirst(t *testing.T) {
	t.Parallel()
	for _, mode := range []etcdclusterv1alpha1.SynchronizationMode{etcdclusterv1alpha1.SynchronizationGlobal, etcdclusterv1alpha1.SynchronizationLocal} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			state := three()
			state.Leader = 1
			w := setting(t, state, "dc1", "dc2")
			for prefix := range w.regions {
				w.regions[prefix].cluster.Spec.AutomationOptions.SynchronizationMode = mode
			}
			w.agent("dc2").members = []agent.Member{changed("dc2-1")}
			for range 10 {
				w.reconcile(1, "dc1", "dc2")
				if len(w.agent("dc2").made) > 0 {
					state.Members[1] = unhealthyMember(state.Members[1]) // it does not start
				}
			}
			if diff := cmp.Diff([]string{"restart dc2-1"}, w.agent("dc2").made); diff != "" {
				t.Fatal(diff)
			}
			if waits := w.results["dc2"].WaitSummary(); mode == etcdclusterv1alpha1.SynchronizationLocal && !strings.Contains(waits, "it is not healthy yet") {
				t.Errorf("it waits for %s", waits)
			}
			w.clock.SetTime(w.clock.Now().Add(24 * time.Hour)) // it would wait forever

			w.regions["dc2"].cluster.Spec.Replace = []etcdclusterv1alpha1.MemberID{"dc2-1"}
			w.agent("dc2").members = append(w.agent("dc2").members, process("dc2-2", agent.Prepared))
			w.reconcile(10, "dc1", "dc2")
			var added bool
			for _, note := range w.notes {
				added = added || strings.Contains(note, "GaveUp: Restart was given up")
			}
			view := w.view()
			if !added {
				t.Errorf("it was not given up: %v", w.notes)
			}
			if mode == etcdclusterv1alpha1.SynchronizationGlobal && (view.Intent == nil || describeSteps(view.Intent.Steps) != "remove dc2-1, stop dc2-1, add-learner dc2-2, start dc2-2, promote dc2-2") {
				t.Errorf("it does %v", view.Intent)
			}
			if mode == etcdclusterv1alpha1.SynchronizationLocal && !strings.Contains(strings.Join(w.notes, "\n"), "Began: Exclusion") {
				t.Errorf("it does not replace it: %v", w.notes)
			}
		})
	}
}

// A member that did not start after a restart is restarted again as soon as it gets other arguments.
func TestFailedRestartIsRepeatedWithNewArgs(t *testing.T) {
	t.Parallel()
	state := three()
	w := setting(t, state, "dc1", "dc2")
	w.agent("dc2").members = []agent.Member{changed("dc2-1")}
	w.reconcile(6, "dc1", "dc2")
	state.Members[1] = unhealthyMember(state.Members[1])
	w.reconcile(2, "dc1", "dc2")
	w.agent("dc2").members[0].Applied = map[string]string{"bad": "1"} // the spec has changed
	w.reconcile(8, "dc1", "dc2")
	if diff := cmp.Diff([]string{"restart dc2-1", "restart dc2-1"}, w.agent("dc2").made); diff != "" {
		t.Error(diff)
	}
}

// The plan waits for a member that is not healthy yet after its restart.
func TestPlanWaitsForHealthyMember(t *testing.T) {
	t.Parallel()
	state := three()
	w := setting(t, state, "dc1", "dc2")
	w.agent("dc2").members = []agent.Member{changed("dc2-1")}
	w.agent("dc2").members[0].Args = map[string]string{"old": "1"}
	w.reconcile(2, "dc1", "dc2")
	w.agent("dc2").members = []agent.Member{changed("dc2-1")}
	for range 10 {
		w.reconcile(1, "dc1", "dc2")
		if slices.Contains(w.agent("dc2").made, "restart dc2-1") {
			state.Members[1] = unhealthyMember(state.Members[1])
		}
	}
	for _, note := range w.notes {
		if strings.Contains(note, "GaveUp") {
			t.Error(note)
		}
	}
	if view := w.view(); view.Intent == nil {
		t.Errorf("it does nothing, done: %v", view.DoneRecords)
	}
}

// No participant answers an order: its region has switched to local mode, or is dead.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	goesLocal := func(w *fixture) { w.must(w.regions["dc2"].Leave(w.Context(), w.next("dc2"))) }
	dies := func(w *fixture) { w.must(w.regions["dc2"].Coordinator.Close(w.Context())) }
	for name, test := range map[string]struct {
		replaced bool
		missing  etcdclusterv1alpha1.MissingPolicy
		then     func(w *fixture)
		// present is the current step, ended the outcome of the action.
		present, ended string
	}{
		"restart of one that goes local":          {false, "", goesLocal, "", "its participant has withdrawn the need"},
		"restart of one that died":                {false, "", dies, "restart dc2-1", ""},
		"restart of one that died, left out":      {false, etcdclusterv1alpha1.MissingLeaveOut, dies, "", "no process of dc2 is alive to restart dc2-1"},
		"start of one that goes local":            {true, "", goesLocal, "", "its participant has withdrawn the need"},
		"start of one that died":                  {true, "", dies, "start dc2-2", ""},
		"start of one that died, and is left out": {true, etcdclusterv1alpha1.MissingLeaveOut, dies, "", "no process of dc2 is alive to start dc2-2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := three()
			w := setting(t, state, "dc1", "dc2")
			for _, r := range w.regions {
				r.cluster.Spec.AutomationOptions.Missing = test.missing
			}
			w.regions["dc1"].cluster.Spec.AutomationOptions.DenyList = []string{"dc2-operator"}
			w.reconcile(1, "dc1")
			w.agent("dc2").members = []agent.Member{changed("dc2-1")}
			if test.replaced {
				w.regions["dc2"].cluster.Spec.Replace = []etcdclusterv1alpha1.MemberID{"dc2-1"}
				w.agent("dc2").members = []agent.Member{process("dc2-1", agent.Running), process("dc2-2", agent.Prepared)}
			}
			w.reconcile(1, "dc2")
			w.reconcile(3, "dc1")
			if test.replaced {
				comes := learner(4, "")
				comes.PeerURLs = []string{"http://dc2-2"}
				state.Members = append(state.Members, comes)
				w.reconcile(2, "dc1")
			}
			test.then(w)
			w.reconcile(6, "dc1")
			view := w.view()
			if test.present != "" {
				if view.Intent == nil || view.Intent.Steps[view.Intent.StepIndex].String() != test.present {
					t.Errorf("it does %v", view.Intent)
				}
				return
			}
			if view.Intent != nil || len(view.DoneRecords) == 0 || !strings.Contains(view.DoneRecords[0].Failure, test.ended) {
				t.Errorf("it does %v, done: %v", view.Intent, view.DoneRecords)
			}
			for _, it := range w.regions["dc1"].system.(*fakeSystem).made {
				if strings.HasPrefix(it, "remove 2") {
					t.Error("dc2-1 is removed without another one")
				}
			}
		})
	}
}

// While the system has no quorum, the declared needs of a region stay.
func TestDeclaredNeedsStayWithoutQuorum(t *testing.T) {
	t.Parallel()
	w := setting(t, three(), "dc1", "dc2")
	w.agent("dc2").members = []agent.Member{changed("dc2-1")}
	w.regions["dc1"].cluster.Spec.AutomationOptions.QuietWindow = &metav1.Duration{Duration: time.Hour}
	w.reconcile(2, "dc1", "dc2")
	w.state = nil
	w.process("dc2")
	for _, prefix := range []string{"dc1", "dc2"} {
		r := w.next(prefix)
		if _, err := r.Reconcile(t.Context(), r.settings(), r); !errors.Is(err, system.ErrUnreachable) {
			t.Errorf("%s: %v", prefix, err)
		}
	}
	view := w.view()
	for _, set := range []coordination.Set{pendingForRestart, readyForRestart} {
		if _, ok := view.Sets[set]["dc2-1"]; !ok {
			t.Errorf("%s is forgotten", set)
		}
	}
}

// The entries of a lost region are removed.
func TestForgetRemovesLostRegion(t *testing.T) {
	t.Parallel()
	w := setting(t, three(), "dc1", "dc2")
	w.agent("dc2").members = []agent.Member{changed("dc2-1")}
	w.regions["dc1"].cluster.Spec.AutomationOptions.QuietWindow = &metav1.Duration{Duration: time.Hour}
	w.reconcile(1, "dc1", "dc2")
	w.regions["dc1"].cluster.Spec.LostRegions = []etcdclusterv1alpha1.Prefix{"dc2"}
	w.reconcile(1, "dc1")
	if len(w.view().Sets[pendingForRestart]) == 0 {
		t.Error("it is alive")
	}
	w.must(w.regions["dc2"].Coordinator.Close(t.Context()))
	w.reconcile(2, "dc1")
	if view := w.view(); len(view.Sets[pendingForRestart]) > 0 || len(view.Participants) != 1 {
		t.Errorf("it is not forgotten: %v %v", view.Sets, view.Participants)
	}
}

// An operator that cannot observe its region releases the lock.
func TestUnobservableRegionReleasesLock(t *testing.T) {
	t.Parallel()
	w := setting(t, three(), "dc1", "dc2")
	w.agent("dc2").members = []agent.Member{changed("dc2-1")}
	w.reconcile(1, "dc2")
	w.reconcile(2, "dc1")
	if lock := w.view().Lock; lock == nil || lock.Holder != "dc1-operator" {
		t.Fatalf("the lock is %v", lock)
	}
	w.agent("dc1").away = errors.New("connection refused")
	r := w.next("dc1")
	result, err := r.Reconcile(t.Context(), r.settings(), r)
	if err == nil || w.view().Lock != nil || len(result.Events) != 1 || result.Events[0].Reason != "SteppedDown" {
		t.Errorf("%v, %v, the lock is %v", err, result.Events, w.view().Lock)
	}
	r.report(result, err)
	if ready := found(r, etcdclusterv1alpha1.ConditionReady); ready.Reason != etcdclusterv1alpha1.ReasonAgentUnreachable {
		t.Errorf("%s: %s", ready.Reason, ready.Message)
	}
}

// A process stopped a member and died before it answered: the next process answers.
func TestStoppedBefore(t *testing.T) {
	t.Parallel()
	state := stateOf(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"), member(4, "dc2-2"))
	w := setting(t, state, "dc1", "dc2")
	w.agent("dc2").members = append(w.agent("dc2").members, process("dc2-2", agent.Running))
	w.regions["dc2"].cluster.Spec.Replace = []etcdclusterv1alpha1.MemberID{"dc2-1"}
	w.regions["dc1"].cluster.Spec.AutomationOptions.DenyList = []string{"dc2-operator"}
	w.reconcile(1, "dc1", "dc2")
	w.reconcile(2, "dc1")
	state.Members = []system.Member{state.Members[0], state.Members[2], state.Members[3]}
	w.reconcile(2, "dc1")
	if view := w.view(); view.Intent == nil || view.Intent.Steps[view.Intent.StepIndex].String() != "stop dc2-1" {
		t.Fatalf("it does %v", view.Intent)
	}
	r := w.next("dc2")
	w.agent("dc2").refuses = errors.New("connection reset")
	if _, err := r.Reconcile(t.Context(), r.settings(), r); err == nil || !w.view().Accepted("dc2-1") {
		t.Fatalf("it was not accepted: %v", err)
	}
	w.agent("dc2").refuses = nil
	w.must(r.Coordinator.Close(t.Context()))
	w.agent("dc2").members = w.agent("dc2").members[1:] // the agent has carried it out
	w.process("dc2")
	w.reconcile(4, "dc2", "dc1")
	if view := w.view(); view.Intent != nil || view.DoneRecords[0].Failure != "" {
		t.Errorf("it does %v, done: %v", view.Intent, view.DoneRecords)
	}
}
