package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/controller"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// The actions.
const (
	Removal   coordination.Action = "Removal"   // of a member of a lost region
	Exclusion coordination.Action = "Exclusion" // of a member that its region stops afterwards
	Inclusion coordination.Action = "Inclusion" // of a new member
	Restart   coordination.Action = "Restart"   // with other settings
)

// actions are sorted by urgency: without its lost members a system can spare others.
var actions = []coordination.Action{Removal, Exclusion, Restart, Inclusion}

// region implements coordination.System for one reconcile.
type region struct {
	*participant
	agent    *agent.Client
	cluster  *etcdclusterv1alpha1.EtcdCluster
	reporter controller.Reporter

	// The remaining fields are the observed state.
	view      *coordination.View // the needs of all regions, or in local mode of this one
	processes map[string]agent.Member
	state     *system.State // nil if stateErr is set
	stateErr  error
	needs     needs
	// storeReachable is set when the coordination has read the store. A prepareErr does not prevent that.
	storeReachable bool
	prepareErr     error
}

// Needs returns the needs of the members, after the preparations that disturb no member.
func (r *region) Needs(ctx context.Context, view *coordination.View) (coordination.Needs, error) {
	if err := r.observe(ctx, view); err != nil {
		return coordination.Needs{}, err
	}
	if r.state == nil { // the declared needs stay as they are
		return coordination.Needs{}, r.stateErr
	}
	needs := coordination.Needs{Pending: r.needs.pending}
	for id := range r.processes {
		needs.Members = append(needs.Members, coordination.MemberID(id))
	}
	// An operator may have died after it had stopped a member and before it had answered the order.
	step, owner := view.Unanswered()
	if step != nil && owner == string(r.cluster.Spec.ProcessGroupIDPrefix) && !slices.Contains(needs.Members, step.Member()) {
		needs.Members = append(needs.Members, step.Member())
	}
	for _, lost := range r.cluster.Spec.LostRegions { // no participant waits for them
		if slices.Contains(view.DeadParticipants(), string(lost)) {
			err := coordination.Forget(ctx, r.store, "", r.cluster.SystemName(), string(lost))
			if err != nil && !errors.Is(err, kv.ErrConflict) {
				return needs, err
			}
		}
	}
	return needs, nil
}

// Plan returns the steps of an action if the system can spare the first member now.
func (r *region) Plan(_ context.Context, proposal coordination.Proposal) ([]coordination.Step, error) {
	if err := r.ready(); err != nil {
		return nil, err
	}
	var units [][]coordination.Step
	c := r.planInput()
	switch proposal.Action {
	case Removal:
		units = plan.MemberUnits(plan.Remove, proposal.IDs()...)
	case Restart:
		units = plan.MemberUnits(plan.Restart, proposal.IDs()...)
	case Exclusion:
		units = plan.ReplacementUnits(c, proposal.Members, r.readyFor(Inclusion))
	case Inclusion:
		if len(r.view.Pending(Exclusion)) == 0 { // otherwise the new members replace others
			units = plan.ReplacementUnits(c, nil, proposal.Members)
		}
	}
	steps := plan.Arrange(c, nil, units)
	if err := r.checkSpare(steps...); err != nil {
		return nil, coordination.NotYet("%s", err)
	}
	return steps, nil
}

// Replan plans the remaining steps after each step, and waits until the system can spare the next member,
// because an order is carried out as soon as it is published.
func (r *region) Replan(_ context.Context, intent *coordination.Intent) ([]coordination.Step, error) {
	if err := r.ready(); err != nil {
		return nil, err
	}
	isPending := func(id coordination.MemberID) bool {
		return slices.ContainsFunc(actions, func(action coordination.Action) bool { return contains(r.view.Pending(action), id) })
	}
	isLeftOut := func(id coordination.MemberID) bool { return intent.LeftOut[id] != "" }
	steps := plan.Replan(r.planInput(), intent.Steps[:intent.StepIndex], intent.Steps[intent.StepIndex:], isPending, isLeftOut)
	return steps, r.checkSpare(steps...)
}

// Execute carries out a step. It returns nil when the state of the system shows that the step is done.
func (r *region) Execute(ctx context.Context, task coordination.Task) error {
	if err := r.ready(); err != nil && task.Do != plan.Stop {
		return err
	}
	if task.Order {
		return r.carryOutOrder(ctx, task)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	m, known := r.find(task.Step)
	switch {
	case task.Do == plan.AddLearner && !known:
		return r.addLearner(ctx, task)
	case task.Do == plan.Promote && !known:
		return coordination.Failed("the system does not know %s any more", task.Member())
	case task.Do == plan.Promote && m.Learner && !m.Healthy():
		return r.unhealthy(task.Step, m.Problem)
	case task.Do == plan.Promote && m.Learner:
		_, err := r.system.MemberPromote(ctx, m.ID)
		return awaitEffect(err)
	case task.Do == plan.MoveLeader && r.leader() == task.With[plan.From]:
		return r.moveLeader(ctx)
	case task.Do == plan.Remove && known:
		if err := r.checkDisturbance(ctx, task.Step); err != nil {
			return err
		}
		_, err := r.system.MemberRemove(ctx, m.ID)
		return awaitEffect(err)
	case !slices.Contains([]string{plan.AddLearner, plan.Promote, plan.MoveLeader, plan.Remove}, task.Do):
		return coordination.Failed("this version of the operator does not know the step %q", task.Do)
	}
	return nil
}

// awaitEffect returns NotYet until the effect of a request is visible. A refused request is retried: it may succeed
// the next time, or be done already.
func awaitEffect(err error) error {
	if err != nil {
		return coordination.NotYet("%s", oneLine(err))
	}
	return coordination.NotYet("the system has not carried out the request yet")
}

// addLearner adds a member. etcd allows one learner at a time. If another one exists, an earlier action was
// given up, and its region requests it again.
func (r *region) addLearner(ctx context.Context, task coordination.Task) (err error) {
	peer := task.With[plan.Peer]
	other := slices.IndexFunc(r.state.Members, func(m system.Member) bool { return m.Learner })
	switch {
	case peer == "":
		return coordination.Failed("the peer URL of %s is unknown", task.Member())
	case other >= 0:
		_, err = r.system.MemberRemove(ctx, r.state.Members[other].ID)
	default:
		_, err = r.system.MemberAddAsLearner(ctx, []string{peer})
	}
	return awaitEffect(err)
}

// moveLeader makes the best member for now the leader, independent of the original plan.
func (r *region) moveLeader(ctx context.Context) error {
	var done, rest []coordination.Step
	if i := r.view.Intent; i != nil {
		done, rest = i.Steps[:i.StepIndex], i.Steps[i.StepIndex:]
	}
	to, found := r.state.Known(string(plan.Successor(r.planInput(), done, rest)), "")
	if !found {
		return coordination.NotYet("%s leads, and no other member is healthy", r.leader())
	}
	return awaitEffect(r.system.MoveLeader(ctx, r.state.Leader, to.ID))
}

// checkDisturbance checks again that a member can be disturbed now: the plan may be outdated.
func (r *region) checkDisturbance(ctx context.Context, step coordination.Step) error {
	if err := r.checkSpare(step); err != nil {
		return err
	}
	if r.leader() == string(step.Member()) && len(r.state.Voters()) > 1 {
		return r.moveLeader(ctx)
	}
	return nil
}

// carryOutOrder makes the agent carry out an order, once.
func (r *region) carryOutOrder(ctx context.Context, task coordination.Task) (err error) {
	id := string(task.Member())
	process, exists := r.processes[id]
	order := agent.Order{Token: task.Token, System: r.cluster.SystemName(), ID: task.ID + "/" + task.Do}
	if exists && process.LastOrder == order.ID || !exists && task.Do == plan.Stop {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	switch task.Do {
	case plan.Start:
		_, err = r.agent.Start(ctx, id, order, agent.Launch{InitialCluster: r.initialCluster(id), State: agent.ClusterExisting})
	case plan.Restart:
		if exists && !r.needs.has(Restart, task.Member()) {
			return nil // no longer needed
		}
		if err := r.checkDisturbance(ctx, task.Step); err != nil {
			return err
		}
		_, err = r.agent.Restart(ctx, id, order)
	case plan.Stop:
		err = r.agent.Delete(ctx, id, order)
	default:
		return coordination.Failed("this version of the operator does not know the order %q", task.Do)
	}
	refused := &agent.RefusedError{}
	switch {
	case errors.Is(err, agent.ErrFenced) && errors.As(err, &refused):
		return coordination.Fenced(refused.Seen)
	case errors.As(err, &refused):
		return coordination.Failed("%s", err)
	case err == nil && !r.global(): // the state of the member was read before the order
		return coordination.NotYet("the agent has carried it out")
	}
	return err
}

// initialCluster lists all members for a new member, which is the only one without a name.
func (r *region) initialCluster(id string) string {
	var all []string
	for _, m := range r.state.Members {
		for _, peer := range m.PeerURLs {
			all = append(all, cmp.Or(m.Name, id)+"="+peer)
		}
	}
	return strings.Join(all, ",")
}

// Healthy returns nil when the member of a step is healthy and up to date.
func (r *region) Healthy(_ context.Context, step coordination.Step) error {
	if err := r.ready(); err != nil {
		return err
	}
	const upToDate = 1000 // entries: while clients write, a member is always slightly behind
	m, known := r.find(step)
	switch disturbs := step.Do == plan.Start || step.Do == plan.Restart || step.Do == plan.Promote; {
	case known && disturbs && !m.Healthy():
		return r.unhealthy(step, m.Problem)
	case known && disturbs && m.Lag > upToDate:
		return r.unhealthy(step, fmt.Sprintf("it is %d entries behind", m.Lag))
	}
	return nil
}

// unhealthy returns NotYet until a member becomes healthy, or Failed if it has a new need.
func (r *region) unhealthy(step coordination.Step, problem string) error {
	id := step.Member()
	restartPending := contains(r.readyFor(Restart), id)
	if intent := r.view.Intent; restartPending && intent != nil {
		restartPending = r.view.Pending(Restart)[id].Version > intent.Members[id] // a need from after the beginning of this intent
	}
	switch {
	case restartPending:
		return coordination.Failed("it is unhealthy (%s), and is restarted with other settings", problem)
	case contains(r.view.Pending(Exclusion), id):
		return coordination.Failed("it is unhealthy (%s), and is replaced", problem)
	}
	return coordination.NotYet("it is not healthy yet: %s", problem)
}

// ready returns NotYet while the system must not be disturbed.
func (r *region) ready() error {
	switch {
	case r.state == nil:
		return coordination.NotYet("%s", oneLine(r.stateErr))
	case !r.state.HasQuorum():
		return coordination.NotYet("the system has no quorum")
	case r.state.Leader == 0:
		return coordination.NotYet("the system has no leader")
	}
	return nil
}

// checkSpare returns NotYet until the system can spare the first member that the steps disturb. It returns
// Failed if members of a lost region have to be removed first: without them there may be a quorum.
func (r *region) checkSpare(steps ...coordination.Step) error {
	first := slices.IndexFunc(steps, func(s coordination.Step) bool { return s.Do != plan.MoveLeader }) // which prepares another step
	if first < 0 {
		return nil
	}
	step := steps[first]
	m, known := r.find(step)
	switch {
	case !known, step.Do != plan.Restart && step.Do != plan.Remove, r.state.Spares(m.ID, step.Do == plan.Remove),
		step.Do == plan.Restart && len(r.state.Voters()) == 1:
		return nil
	case len(r.view.Pending(Removal)) > 0 && !contains(r.view.Pending(Removal), step.Member()):
		return coordination.Failed("members of a lost region are removed first: without %s the system has no quorum", step.Member())
	}
	if voters := len(r.state.Voters()); voters == 2 && r.state.HasQuorum() {
		return coordination.NotYet("without %s the system has no quorum: add a third member", step.Member())
	}
	return coordination.NotYet("without %s the system has no quorum", step.Member())
}

// find returns the member of a step.
func (r *region) find(step coordination.Step) (system.Member, bool) {
	return r.state.Known(string(step.Member()), step.With[plan.Peer])
}

func (r *region) leader() string {
	m, _ := r.state.Member(r.state.Leader)
	return m.Name
}

// planInput returns the system as input of a plan.
func (r *region) planInput() plan.Cluster {
	c := plan.Cluster{Leader: coordination.MemberID(r.leader())}
	for _, m := range r.state.Voters() {
		c.Voters = append(c.Voters, coordination.MemberID(m.Name))
		if !m.Healthy() {
			c.Unhealthy = append(c.Unhealthy, coordination.MemberID(m.Name))
		}
	}
	c.Candidates = r.view.Candidates(c.Voters, Removal, Exclusion)
	return c
}

// readyFor returns the members that are ready for an action.
func (r *region) readyFor(action coordination.Action) coordination.Members {
	_, ready := action.Sets()
	return r.view.Sets[ready]
}

func contains(members coordination.Members, id coordination.MemberID) bool {
	_, ok := members[id]
	return ok
}

func (r *region) global() bool {
	return r.cluster.Spec.AutomationOptions.SynchronizationMode == etcdclusterv1alpha1.SynchronizationGlobal
}

// settings returns the coordination settings in the spec.
func (r *region) settings() coordination.Settings {
	spec, options := &r.cluster.Spec, &r.cluster.Spec.AutomationOptions
	return coordination.Settings{
		Mode: coordination.Mode(options.SynchronizationMode), Prefix: string(spec.ProcessGroupIDPrefix), Generation: r.cluster.Generation,
		Denied: options.DenyList,
		Policy: coordination.Policy{
			Quiet: options.Quiet(), Missing: coordination.Missing(options.Missing), After: ptr.Deref(options.GoOnAfter, metav1.Duration{}).Duration,
		},
	}
}
