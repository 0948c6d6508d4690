package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// local returns a region in local mode that has observed the system and its own processes.
func local(t *testing.T, state *system.State, own ...agent.Member) (*region, *fakeAgent) {
	t.Helper()
	w := setting(t, state, "dc1")
	w.agent("dc1").members = own
	w.regions["dc1"].cluster.Spec.AutomationOptions.SynchronizationMode = "local"
	r := w.next("dc1")
	if _, err := r.Needs(t.Context(), &coordination.View{}); (err != nil) != (state == nil) {
		t.Fatal(err)
	}
	return r, w.agent("dc1")
}

// additionSteps and goes return the steps of a member that is added or removed.
func additionSteps(id coordination.MemberID) []coordination.Step {
	return plan.ReplacementUnits(plan.Cluster{}, nil, coordination.Members{id: {Addresses: []string{"http://" + string(id)}}})[0]
}

func removalSteps(id coordination.MemberID) []coordination.Step {
	return plan.ReplacementUnits(plan.Cluster{}, coordination.Members{id: {Addresses: []string{"http://" + string(id)}}}, nil)[0]
}

// need makes a region in local mode need an action.
func (r *region) need(all []coordination.Need) {
	r.needs.pending, r.view = all, coordination.Needs{Pending: all}.View("dc1")
}

// said returns the text of an error, with its kind: NotYet or Failed.
func words(err error) string {
	if err == nil {
		return ""
	}
	kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", err), "*coordination."), "Error")
	return kind + ": " + err.Error()
}

func TestPlan(t *testing.T) {
	t.Parallel()
	noQuorum := stateOf(member(1, "dc1-1"), unhealthyMember(member(2, "dc2-1")), unhealthyMember(member(3, "dc3-1")))
	noLeader := three()
	noLeader.Leader = 0
	barely := stateOf(member(1, "dc1-1"), member(2, "dc2-1"), unhealthyMember(member(3, "dc3-1")))
	members := func(ids ...coordination.MemberID) coordination.Members {
		all := coordination.Members{}
		for _, id := range ids {
			all[id] = coordination.Member{Prefix: string(id[:3]), Addresses: []string{"http://" + string(id)}}
		}
		return all
	}
	removed := []coordination.Need{need(Removal, "dc3-1")}
	for name, test := range map[string]struct {
		action  coordination.Action
		members coordination.Members
		state   *system.State
		needs   []coordination.Need
		want    string
		waits   string
	}{
		"a restart":                   {Restart, members("dc1-1", "dc2-1", "dc3-1"), three(), nil, "restart dc2-1, restart dc3-1, move-leader dc2-1, restart dc1-1", ""},
		"the only member":             {Restart, members("dc1-1"), stateOf(member(1, "dc1-1")), nil, "restart dc1-1", ""},
		"without a quorum":            {Restart, members("dc1-1"), noQuorum, nil, "", "notYet: the system has no quorum"},
		"without a leader":            {Restart, members("dc1-1"), noLeader, nil, "", "notYet: the system has no leader"},
		"without an answer":           {Restart, members("dc1-1"), nil, nil, "", "notYet: no member of the system answers"},
		"one of two":                  {Restart, members("dc1-1"), stateOf(member(1, "dc1-1"), member(2, "dc2-1")), nil, "", "notYet: without dc1-1 the system has no quorum: add a third member"},
		"one that is needed":          {Restart, members("dc2-1"), barely, nil, "", "notYet: without dc2-1 the system has no quorum"},
		"the leader, that is needed":  {Restart, members("dc1-1"), barely, nil, "", "notYet: without dc1-1 the system has no quorum"},
		"one that is not well":        {Restart, members("dc2-1", "dc3-1"), barely, nil, "restart dc3-1, restart dc2-1", ""},
		"a lost one comes first":      {Restart, members("dc2-1"), barely, removed, "", "notYet: members of a lost region are removed first: without dc2-1 the system has no quorum"},
		"a lost one":                  {Removal, members("dc3-1"), barely, removed, "remove dc3-1", ""},
		"one that comes":              {Inclusion, members("dc4-1"), three(), nil, "add-learner dc4-1, start dc4-1, promote dc4-1", ""},
		"one that comes with another": {Inclusion, members("dc1-2"), three(), []coordination.Need{pending(Exclusion, "dc1-1")}, "", ""},
		"one that goes":               {Exclusion, members("dc2-1"), three(), nil, "remove dc2-1, stop dc2-1", ""},
		"one that goes, and is needed": {
			Exclusion, members("dc2-1"), barely, nil, "", "notYet: without dc2-1 the system has no quorum",
		},
		"one for one": {
			Exclusion, members("dc1-1", "dc2-1"), three(),
			[]coordination.Need{need(Inclusion, "dc1-2", "http://dc1-2")},
			"remove dc2-1, stop dc2-1, add-learner dc1-2, start dc1-2, promote dc1-2, move-leader dc3-1, remove dc1-1, stop dc1-1", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := local(t, test.state)
			r.need(test.needs)
			steps, err := r.Plan(t.Context(), coordination.Proposal{Action: test.action, Members: test.members, View: r.view})
			if diff := cmp.Diff([]string{test.want, test.waits}, []string{describeSteps(steps), words(err)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExecute(t *testing.T) {
	t.Parallel()
	withLearner := stateOf(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"), learner(4, "dc1-2"))
	withAnother := stateOf(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"), learner(9, "dc3-2"))
	sickLearner := stateOf(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"), unhealthyMember(learner(4, "dc1-2")))
	voter := stateOf(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"), member(4, "dc1-2"))
	barely := stateOf(member(1, "dc1-1"), member(2, "dc2-1"), unhealthyMember(member(3, "dc3-1")))
	barely.Leader = 2
	two := three()
	two.Leader = 2
	restart, remove, stop := plan.MemberUnits(plan.Restart, "dc1-1")[0][0], removalSteps("dc1-1")[0], removalSteps("dc1-1")[1]
	comes := additionSteps("dc1-2")
	unreachable := coordination.Step{Do: plan.AddLearner, Members: []coordination.MemberID{"dc1-2"}}
	move := coordination.Step{Do: plan.MoveLeader, Members: []coordination.MemberID{"dc2-1"}, With: map[string]string{plan.From: "dc1-1"}}
	done := changed("dc1-1")
	done.LastOrder = "orders/7/1/restart"
	const joins, asked, ordered = "start dc1-2 existing", "notYet: the system has not carried out the request yet", "notYet: the agent has carried it out"
	for name, test := range map[string]struct {
		step  coordination.Step
		state *system.State
		own   []agent.Member
		// err is the response of the system or the agent.
		err  error
		want string
		did  []string
	}{
		"a restart":                         {restart, two, []agent.Member{changed("dc1-1")}, nil, ordered, []string{"restart dc1-1"}},
		"a restart of the leader":           {restart, three(), []agent.Member{changed("dc1-1")}, nil, asked, []string{"move 1 to 2"}},
		"a restart that was done":           {restart, two, []agent.Member{done}, nil, "", nil},
		"a restart that was withdrawn":      {restart, two, []agent.Member{process("dc1-1", agent.Running)}, nil, "", nil},
		"a restart of one that is needed":   {restart, barely, []agent.Member{changed("dc1-1")}, nil, "notYet: without dc1-1 the system has no quorum", nil},
		"a restart that the agent refuses":  {restart, two, []agent.Member{changed("dc1-1")}, agent.ErrInvalid, "failed: the agent refuses: ", []string{"restart dc1-1"}},
		"a restart under an old token":      {restart, two, []agent.Member{changed("dc1-1")}, &agent.RefusedError{Reason: agent.ReasonFenced, Seen: 99}, "fenced: the system has seen token 99", []string{"restart dc1-1"}},
		"a start":                           {comes[1], withLearner, []agent.Member{process("dc1-2", agent.Prepared)}, nil, ordered, []string{joins}},
		"a start of one that nobody knows":  {comes[1], withLearner, nil, agent.ErrNotPrepared, "failed: the agent refuses: ", []string{joins}},
		"a stop":                            {stop, voter, []agent.Member{process("dc1-1", agent.Running)}, nil, ordered, []string{"delete dc1-1"}},
		"a stop that was done":              {stop, voter, nil, nil, "", nil},
		"a learner":                         {comes[0], three(), nil, nil, asked, []string{"add http://dc1-2"}},
		"a learner that is known":           {comes[0], withLearner, nil, nil, "", nil},
		"a learner instead of another one":  {comes[0], withAnother, nil, nil, asked, []string{"remove 9"}},
		"a learner that nobody can reach":   {unreachable, three(), nil, nil, "failed: the peer URL of dc1-2 is unknown", nil},
		"a vote":                            {comes[2], withLearner, nil, nil, asked, []string{"promote 4"}},
		"a vote too early":                  {comes[2], withLearner, nil, rpctypes.ErrMemberLearnerNotReady, "notYet: " + rpctypes.ErrMemberLearnerNotReady.Error(), []string{"promote 4"}},
		"a vote for one that has it":        {comes[2], voter, nil, nil, "", nil},
		"a vote for one that is forgotten":  {comes[2], three(), nil, nil, "failed: the system does not know dc1-2 any more", nil},
		"a vote for one that is replaced":   {comes[2], sickLearner, []agent.Member{changed("dc1-2")}, nil, "failed: it is unhealthy (it does not answer), and is replaced", nil},
		"another leader":                    {move, three(), nil, nil, asked, []string{"move 1 to 2"}},
		"another leader that leads already": {move, two, nil, nil, "", nil},
		"another leader that is unhealthy": {
			move, stateOf(member(1, "dc1-1"), unhealthyMember(member(2, "dc2-1")), member(3, "dc3-1")), nil, nil, asked, []string{"move 1 to 3"},
		},
		"a removal":                   {remove, two, nil, nil, asked, []string{"remove 1"}},
		"a removal that was done":     {remove, stateOf(member(2, "dc2-1")), nil, nil, "", nil},
		"a removal of the leader":     {remove, three(), nil, nil, asked, []string{"move 1 to 2"}},
		"a removal of one too many":   {remove, barely, nil, nil, "notYet: without dc1-1 the system has no quorum", nil},
		"a removal that is not taken": {remove, two, nil, rpctypes.ErrUnhealthy, "notYet: " + rpctypes.ErrUnhealthy.Error(), []string{"remove 1"}},
		"without an answer":           {remove, nil, nil, nil, "notYet: no member of the system answers", nil},
		"something else":              {coordination.Step{Do: "dance"}, three(), nil, nil, `failed: this version of the operator does not know the step "dance"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, own := local(t, test.state, test.own...)
			it := r.system.(*fakeSystem)
			own.made, it.made, own.refuses, it.fails = nil, nil, test.err, test.err
			err := r.Execute(t.Context(), coordination.Task{Step: test.step, ID: "orders/7/1", Token: 7})
			if got := words(err); got != test.want {
				t.Errorf("%q, not %q", got, test.want)
			}
			if diff := cmp.Diff(test.did, append(own.made, it.made...), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	behind := three()
	behind.Members[0].Lag = 5000
	down := stateOf(unhealthyMember(member(1, "dc1-1")), member(2, "dc2-1"), member(3, "dc3-1"))
	down.Leader = 2
	restart := plan.MemberUnits(plan.Restart, "dc1-1")[0][0]
	running := process("dc1-1", agent.Running)
	nameless := unhealthyMember(learner(4, ""))
	nameless.PeerURLs = []string{"http://dc1-2"}
	for name, test := range map[string]struct {
		step  coordination.Step
		state *system.State
		own   agent.Member
		needs []coordination.Need
		want  string
	}{
		"it is well":                          {restart, three(), running, nil, ""},
		"it is not well":                      {restart, down, running, nil, "notYet: it is not healthy yet: it does not answer"},
		"it is far behind":                    {restart, behind, running, nil, "notYet: it is not healthy yet: it is 5000 entries behind"},
		"it gets something else":              {restart, down, running, []coordination.Need{need(Restart, "dc1-1")}, "failed: it is unhealthy (it does not answer), and is restarted with other settings"},
		"it does not get something else yet":  {restart, down, running, []coordination.Need{pending(Restart, "dc1-1")}, "notYet: it is not healthy yet: it does not answer"},
		"it has to be replaced":               {restart, down, running, []coordination.Need{pending(Exclusion, "dc1-1")}, "failed: it is unhealthy (it does not answer), and is replaced"},
		"no quorum":                           {restart, stateOf(unhealthyMember(member(1, "dc1-1"))), running, nil, "notYet: the system has no quorum"},
		"it has to join":                      {additionSteps("dc1-2")[1], stateOf(member(1, "dc1-1"), nameless), running, nil, "notYet: it is not healthy yet: it does not answer"},
		"one that is added joins later":       {additionSteps("dc1-2")[0], stateOf(member(1, "dc1-1"), nameless), running, nil, ""},
		"an order to stop needs nothing else": {removalSteps("dc1-1")[1], three(), running, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := local(t, test.state, test.own)
			r.need(test.needs)
			if got := words(r.Healthy(t.Context(), test.step)); got != test.want {
				t.Errorf("%q, not %q", got, test.want)
			}
		})
	}
}

// Replan waits for the system, and gives the plan up if another action has to come first.
func TestReplan(t *testing.T) {
	t.Parallel()
	barely := stateOf(member(1, "dc1-1"), member(2, "dc2-1"), unhealthyMember(member(3, "dc3-1")))
	steps := slices.Concat(plan.MemberUnits(plan.Restart, "dc1-1", "dc2-1")...)
	wants := []coordination.Need{need(Restart, "dc2-1")}
	for name, test := range map[string]struct {
		state *system.State
		needs []coordination.Need
		want  string
		waits string
	}{
		"it goes on":                 {three(), wants, "restart dc2-1", ""},
		"nobody wants it any more":   {three(), nil, "", ""},
		"it is needed":               {barely, wants, "", "notYet: without dc2-1 the system has no quorum"},
		"a lost one comes first":     {barely, append(wants, need(Removal, "dc3-1")), "", "failed: members of a lost region are removed first: without dc2-1 the system has no quorum"},
		"a lost one disturbs no one": {stateOf(member(1, "dc1-1"), member(2, "dc2-1"), member(4, "dc4-1"), unhealthyMember(member(3, "dc3-1"))), append(wants, need(Removal, "dc3-1")), "", "failed: members of a lost region are removed first: without dc2-1 the system has no quorum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := local(t, test.state)
			r.need(test.needs)
			rest, err := r.Replan(t.Context(), &coordination.Intent{Action: Restart, Steps: steps, StepIndex: 1})
			if err != nil {
				rest = nil // not used
			}
			if diff := cmp.Diff([]string{test.want, test.waits}, []string{describeSteps(rest), words(err)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The first member starts a system only if none has ever existed, even if the agent has lost its data.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	prepared := process("dc1-1", agent.Prepared)
	for name, test := range map[string]struct {
		bootstrap bool
		was       string
		state     *system.State
		own       []agent.Member
		did       []string
	}{
		"the first one":                      {true, "", nil, []agent.Member{prepared}, []string{"start dc1-1 new"}},
		"another region does it":             {false, "", nil, []agent.Member{prepared}, nil},
		"it is not prepared yet":             {true, "", nil, nil, []string{"prepare dc1-1", "args dc1-1 map[]"}},
		"there is a system":                  {true, "", stateOf(member(2, "dc2-1")), []agent.Member{prepared}, nil},
		"there was a system, out of sight":   {true, "8e9e", nil, []agent.Member{prepared}, nil},
		"there was a system, all is lost":    {true, "8e9e", nil, nil, nil},
		"there is a system, all is lost":     {true, "8e9e", stateOf(member(2, "dc2-1"), unhealthyMember(member(1, "dc1-1"))), nil, []string{"prepare dc1-2", "args dc1-2 map[]"}},
		"there was one, of which one is off": {true, "", nil, []agent.Member{process("dc1-1", agent.Stopped)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setting(t, test.state, "dc1")
			w.agent("dc1").members = test.own
			cluster := w.regions["dc1"].cluster
			cluster.Spec.Bootstrap, cluster.Status.ClusterID = test.bootstrap, test.was
			w.observedRegion("dc1")
			if diff := cmp.Diff(test.did, w.agent("dc1").made); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An error of the agent for one member does not affect other members, and is reported.
func TestAgentErrorAffectsOneMember(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		reason string
	}{
		"the agent refuses":         {agent.ErrInvalid, etcdclusterv1alpha1.ReasonAgentRefused},
		"the agent does not answer": {errors.New("connection refused"), coordination.ReasonFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setting(t, nil, "dc1")
			w.agent("dc1").members, w.agent("dc1").refuses = nil, test.err
			w.regions["dc1"].cluster.Spec.Members = 2
			r := w.observedRegion("dc1")
			if diff := cmp.Diff([]string{"prepare dc1-1", "prepare dc1-2"}, w.agent("dc1").made); diff != "" {
				t.Error(diff)
			}
			r.storeReachable = true
			r.report(&coordination.Result{View: r.view}, r.prepareErr)
			ready, coordinated := found(r, etcdclusterv1alpha1.ConditionReady), found(r, coordination.ConditionCoordinated)
			if ready.Reason != test.reason && coordinated.Reason != test.reason {
				t.Errorf("%s: %s, %s: %s", ready.Reason, ready.Message, coordinated.Reason, coordinated.Message)
			}
		})
	}
}

// SetVersion is called together with SetArgs, only for the members of this system.
func TestSetVersionComesWithSetArgs(t *testing.T) {
	t.Parallel()
	w := setting(t, three(), "dc1")
	other := process("dc1-2", agent.Running)
	other.System = "payments"
	w.agent("dc1").members = append(w.agent("dc1").members, other)
	w.regions["dc1"].cluster.Spec.Version = "3.6.1"
	r := w.observedRegion("dc1")
	if diff := cmp.Diff([]string{"version dc1-1 3.6.1", "args dc1-1 map[]"}, w.agent("dc1").made); diff != "" {
		t.Error(diff)
	}
	if len(r.processes) != 1 {
		t.Errorf("it has %v", r.processes)
	}
}
