package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// What is done to members of an etcd cluster.
const (
	// Removal takes a member out of the system that is lost. Exclusion also stops it, Inclusion adds one.
	Removal   coordination.Action = "Removal"
	Exclusion coordination.Action = "Exclusion"
	Inclusion coordination.Action = "Inclusion"
	// Restart restarts a member with other arguments.
	Restart coordination.Action = "Restart"
)

// actions are those that are begun, the most urgent first: the removal of what is lost makes the system whole again.
var actions = []coordination.Action{Removal, Exclusion, Restart, Inclusion}

// region is what the operator of one region knows and does in one reconcile. It is the coordination.System of the operators.
type region struct {
	*part
	agent   agentOf
	cluster *etcdclusterv1alpha1.EtcdCluster
	note    func(reason, message string)
	// view is what the operators have said. In local mode it is empty.
	view *coordination.View
	// state is how the system is, or nil if nobody answers: then unseen says why.
	state  *system.State
	unseen error
	needs  needs
	// met is set when the operators could tell each other what they need, and observed when the region was looked at.
	met, observed bool
	// restarted is set when a member was restarted after that: how it was seen is how it was before.
	restarted bool
	// failed is what the agent has not done, which keeps from nothing else.
	failed error
}

// agentOf is what an operator asks of the region's agent, and systemOf what it asks of the system.
type agentOf interface {
	Members(ctx context.Context) ([]agent.Member, error)
	Prepare(ctx context.Context, id, system string) (agent.Member, error)
	SetArgs(ctx context.Context, id string, args map[string]string) (agent.Member, error)
	SetVersion(ctx context.Context, id, version string) (agent.Member, error)
	Start(ctx context.Context, id string, order agent.Order, launch agent.Launch) (agent.Member, error)
	Restart(ctx context.Context, id string, order agent.Order) (agent.Member, error)
	Delete(ctx context.Context, id string, order agent.Order) error
}
type systemOf interface {
	State(ctx context.Context) (*system.State, error)
	AddLearner(ctx context.Context, peerURL string) (system.ID, error)
	Promote(ctx context.Context, id system.ID) error
	MoveLeader(ctx context.Context, from, to system.ID) error
	Remove(ctx context.Context, id system.ID) error
	SetSeeds(seeds []string)
	Endpoints() []string
	Close() error
}

// Needs looks at the region, prepares what disturbs nobody, and returns what the members need.
func (r *region) Needs(ctx context.Context, view *coordination.View) (coordination.Needs, error) {
	if err := r.observe(ctx, view); err != nil {
		return coordination.Needs{}, err
	}
	needs := coordination.Needs{Pending: r.needs.pending}
	for _, id := range slices.Sorted(maps.Keys(r.processes)) {
		needs.Members = append(needs.Members, coordination.MemberID(id))
	}
	prefix := string(r.cluster.Spec.ProcessGroupIDPrefix)
	if i := view.Intent; i != nil && i.At < len(i.Steps) && i.Steps[i.At].Do == plan.Stop && !slices.Contains(needs.Members, i.Steps[i.At].Member()) &&
		view.Owner(i.Steps[i.At].Member()) == prefix {
		needs.Members = append(needs.Members, i.Steps[i.At].Member()) // stopped by a process that died before it could say so
	}
	if r.state == nil || !r.state.Agreed { // what was said is still so, as far as anybody knows
		needs.Pending = said(view, prefix)
	}
	return needs, r.forgetLost(ctx)
}

// said are the needs that a region has told the others.
func said(view *coordination.View, prefix string) (needs []coordination.Need) {
	for _, action := range actions {
		pending, ready := action.Sets()
		for id, member := range view.Sets[pending] {
			if said, is := view.Sets[ready][id]; member.Prefix == prefix {
				needs = append(needs, coordination.Need{Action: action, Member: id, Ready: is, Addresses: said.Addresses})
			}
		}
	}
	return needs
}

// forgetLost removes what regions that do not return have said last: nobody should wait for them.
func (r *region) forgetLost(ctx context.Context) error {
	for _, lost := range r.cluster.Spec.LostRegions {
		if !slices.Contains(r.view.Left(), string(lost)) {
			continue
		}
		if err := coordination.Forget(ctx, r.store, "", r.cluster.SystemName(), string(lost)); err != nil && !errors.Is(err, kv.ErrConflict) {
			return err
		}
		r.note("Forgot", "What the region "+string(lost)+" had said was removed: it does not return.")
	}
	return nil
}

// Plan returns what is done to members that are ready, if the system can spare the first of them now. To move the leader for
// something that cannot be done then would be of no use.
func (r *region) Plan(_ context.Context, proposal coordination.Proposal) ([]coordination.Step, error) {
	r.overdue.step = ""
	if reason := r.closed(); reason != "" {
		return nil, coordination.NotYet("%s", reason)
	}
	var units [][]coordination.Step
	coming := r.members(Inclusion, true)
	switch lost := r.lost(); {
	case proposal.Action == Removal:
		for _, id := range proposal.IDs() {
			units = append(units, plan.Losing(id))
		}
	case lost != "":
		return nil, coordination.NotYet("%s of a region that does not return is removed first", lost)
	case proposal.Action == Exclusion:
		units = exclude(r.planned(), proposal.Members, coming)
	case proposal.Action == Restart:
		for _, id := range proposal.IDs() {
			units = append(units, plan.Restarting(id))
		}
	case len(r.pending(Exclusion)) == 0: // members that take the place of others come with them
		units = exclude(r.planned(), nil, proposal.Members)
	}
	steps := plan.Begin(r.planned(), units...)
	for _, step := range steps {
		if step.Do != plan.MoveLeader {
			if reason := r.spared(step); reason != "" {
				return nil, coordination.NotYet("%s", reason)
			}
			break
		}
	}
	return steps, nil
}

// exclude lets members go and come. The members of a region that come take the place of those that go.
func exclude(c plan.Cluster, going, coming coordination.Members) (units [][]coordination.Step) {
	peer := func(m coordination.Member) string { return strings.Join(m.Addresses, "") }
	left := slices.Sorted(maps.Keys(coming))
	for _, id := range slices.Sorted(maps.Keys(going)) {
		at := slices.IndexFunc(left, func(other coordination.MemberID) bool { return coming[other].Prefix == going[id].Prefix })
		if at < 0 {
			units = append(units, plan.Going(id, peer(going[id])))
			continue
		}
		units = append(units, plan.Replacing(c, id, peer(going[id]), left[at], peer(coming[left[at]])))
		left = slices.Delete(left, at, at+1)
	}
	for _, id := range left {
		units = append(units, plan.Coming(id, peer(coming[id])))
	}
	return units
}

// Replan plans what is left when a step is done: another member may lead by now. An order is carried out from the moment that it is
// written, so the rest waits until the system can spare the next member.
func (r *region) Replan(_ context.Context, intent *coordination.Intent) ([]coordination.Step, error) {
	wanted := func(id coordination.MemberID) bool {
		return slices.ContainsFunc(actions, func(action coordination.Action) bool { _, is := r.pending(action)[id]; return is })
	}
	leftOut := func(id coordination.MemberID) bool { _, is := intent.LeftOut[id]; return is }
	reason := r.closed()
	if reason == "" {
		steps := plan.Again(r.planned(), intent.Steps[:intent.At], intent.Steps[intent.At:], wanted, leftOut)
		if len(steps) == 0 {
			return nil, nil
		}
		if reason = r.spared(steps[0]); reason == "" {
			return steps, nil
		}
	}
	return nil, r.notYet(intent.Action, reason)
}

// notYet waits, or gives up for what may have to come first: that a region which does not return is removed. Its operator obeys
// nobody, and without its members there may be no quorum to spare.
func (r *region) notYet(action coordination.Action, reason string) error {
	if lost := r.lost(); lost != "" && action != Removal {
		return coordination.Failed("%s of a region that does not return is removed first (%s)", lost, reason)
	}
	return coordination.NotYet("%s", reason)
}

// Execute carries out a step. What was done before is not done again, whoever asks.
func (r *region) Execute(ctx context.Context, task coordination.Task) error {
	if task.Do == plan.Start || task.Do == plan.Restart || task.Do == plan.Stop {
		return r.obey(ctx, task)
	}
	if reason := r.closed(); reason != "" {
		return coordination.NotYet("%s", reason)
	}
	m, known := r.find(task.Step)
	switch task.Do {
	case plan.AddLearner:
		return r.addLearner(ctx, task)
	case plan.Promote:
		_, replaced := r.pending(Exclusion)[task.Member()]
		switch {
		case !known:
			return coordination.Failed("the system does not know %s any more", task.Member())
		case !m.Learner:
			return nil
		case !m.Healthy() && replaced:
			return coordination.Failed("%s is to be replaced: %s", task.Member(), m.Health.Problem)
		case !m.Healthy() && r.late(task.Step): // and is not still getting the data
			return coordination.Failed("%s is not well in time: %s", task.Member(), m.Health.Problem)
		}
		return passing(r.system.Promote(ctx, m.ID))
	case plan.MoveLeader:
		return r.moveLeader(ctx, coordination.MemberID(task.With[plan.From]), task.Member())
	case plan.Remove:
		if !known {
			return nil
		}
		if err := r.free(ctx, task.Step); err != nil {
			return err
		}
		return passing(r.system.Remove(ctx, m.ID))
	}
	return coordination.Failed("this version of the operator does not know what %q is", task.Do)
}

// addLearner makes the system expect a member. It expects one at a time: another one is of an action that was given up, and comes
// again when its region still wants that.
func (r *region) addLearner(ctx context.Context, task coordination.Task) error {
	if _, known := r.find(task.Step); known {
		return nil
	}
	if task.With[plan.Peer] == "" {
		return coordination.Failed("nobody has said where %s is", task.Member())
	}
	for _, m := range r.state.Members {
		if m.Learner {
			if err := r.system.Remove(ctx, m.ID); err != nil {
				return passing(err)
			}
		}
	}
	_, err := r.system.AddLearner(ctx, task.With[plan.Peer])
	return passing(err)
}

// moveLeader gives the leader's part to another member, before the one that has it is disturbed.
func (r *region) moveLeader(ctx context.Context, from, to coordination.MemberID) error {
	if r.leader() != from {
		return nil // the rest is planned again
	}
	c := r.planned()
	if !slices.Contains(c.Voters, to) || slices.Contains(c.Sick, to) {
		if to = plan.Successor(c, nil, nil); to == "" {
			return coordination.NotYet("%s leads, and no other member is well", from)
		}
	}
	m, _ := r.state.Named(string(to))
	if err := r.system.MoveLeader(ctx, r.state.Leader, m.ID); !errors.Is(err, system.ErrOtherLeader) {
		return passing(err)
	}
	return nil
}

// free lets a member be disturbed: the system keeps its quorum, and another member leads.
func (r *region) free(ctx context.Context, step coordination.Step) error {
	reason := cmp.Or(r.closed(), r.spared(step))
	if reason == "" && r.leader() == step.Member() && len(r.state.Voters()) > 1 {
		if err := r.moveLeader(ctx, step.Member(), ""); err != nil {
			return err
		}
		reason = fmt.Sprintf("%s leads", step.Member())
	}
	switch {
	case reason == "":
		return nil
	case r.view.Intent != nil:
		return r.notYet(r.view.Intent.Action, reason)
	}
	return r.notYet("", reason)
}

// passing tells what the system does not take now from what else went wrong.
func passing(err error) error {
	for _, kind := range []error{system.ErrNotInSync, system.ErrNotNow, system.ErrNoLeader, system.ErrUnreachable, context.DeadlineExceeded} {
		if errors.Is(err, kind) {
			return coordination.NotYet("%s", oneLine(err))
		}
	}
	return err
}

// obey has the agent carry out an order. It may have been given a while ago, when the system was better.
func (r *region) obey(ctx context.Context, task coordination.Task) error {
	id := string(task.Member())
	process, there := r.processes[id]
	order := agent.Order{Token: task.Token, System: r.cluster.SystemName(), ID: task.ID + "/" + task.Do}
	if there && process.LastOrder == order.ID || !there && task.Do == plan.Stop {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	var err error
	switch task.Do {
	case plan.Start:
		if r.state == nil || !r.state.Agreed {
			return coordination.NotYet("the members of the system are not known")
		}
		if err = r.arm(ctx, id); err == nil {
			_, err = r.agent.Start(ctx, id, order, agent.Launch{InitialCluster: r.initialCluster(id), State: agent.ClusterExisting})
		}
	case plan.Restart:
		if there && r.state != nil && r.state.Agreed && !r.needs.has(Restart, task.Member()) {
			return nil // it was withdrawn just when it was ordered
		}
		if err := r.free(ctx, task.Step); err != nil {
			return err
		}
		r.restarted = true
		_, err = r.agent.Restart(ctx, id, order)
	case plan.Stop:
		err = r.agent.Delete(ctx, id, order)
	}
	refused := &agent.RefusedError{}
	switch {
	case errors.Is(err, agent.ErrFenced) && errors.As(err, &refused):
		return coordination.Fenced(refused.Seen)
	case errors.Is(err, agent.ErrNotPrepared), errors.Is(err, agent.ErrNotStarted), errors.Is(err, agent.ErrInvalid), errors.Is(err, agent.ErrDeleting):
		return coordination.Failed("%s", err)
	case err != nil:
		return fromAgent(fmt.Sprintf("%s %s", task.Do, id), err)
	}
	return nil
}

// initialCluster is what a member has to know to join: all members, also those that have no name yet.
func (r *region) initialCluster(id string) string {
	var all []string
	for _, m := range r.state.Members {
		for _, peer := range m.PeerURLs {
			name := cmp.Or(m.Name, "not-started-"+m.ID.String())
			if peer == r.processes[id].PeerURL {
				name = id
			}
			all = append(all, name+"="+peer)
		}
	}
	return strings.Join(all, ",")
}

// Healthy tells whether a step has had its effect, and its member is well.
func (r *region) Healthy(_ context.Context, step coordination.Step) error {
	if reason := r.closed(); reason != "" {
		return coordination.NotYet("%s", reason)
	}
	m, known := r.find(step)
	switch {
	case step.Do == plan.AddLearner && !known, step.Do == plan.Remove && known:
		return coordination.NotYet("the system has to take the change")
	case step.Do == plan.Promote && m.Learner:
		return coordination.NotYet("%s has to have its vote", step.Member())
	case step.Do == plan.MoveLeader && string(r.leader()) == step.With[plan.From]:
		return coordination.NotYet("%s has to lead", step.Member())
	case r.restarted:
		return coordination.NotYet("%s was seen before that", step.Member())
	}
	problem := ""
	switch {
	case known && (step.Do == plan.Restart || step.Do == plan.Promote):
		problem = unwell(m)
	case known && step.Do == plan.Start && m.Name == "":
		problem = "it has not joined the system"
	}
	if problem == "" {
		return nil
	}
	entry, again := r.pending(Restart)[step.Member()]
	if again && r.view.Intent != nil {
		_, readyFor := Restart.Sets()
		_, ready := r.view.Sets[readyFor][step.Member()]
		again = ready && entry.Version > r.view.Intent.Members[step.Member()]
	}
	switch {
	case again:
		return coordination.Failed("it is not well (%s), and is restarted with other arguments", problem)
	case r.needs.removing[string(step.Member())]:
		return coordination.Failed("it is not well (%s), and is replaced", problem)
	case r.late(step):
		return coordination.Failed("it is not well again in time: %s", problem)
	}
	return coordination.NotYet("it is not well yet: %s", problem)
}

// late tells whether a step has been waited for longer than the policy allows, by this operator's clock.
func (r *region) late(step coordination.Step) bool {
	if r.overdue.step != step.String() {
		r.overdue.step, r.overdue.since = step.String(), r.clock.Now()
	}
	after := r.cluster.Spec.AutomationOptions.After()
	return after > 0 && r.clock.Now().Sub(r.overdue.since) >= after
}

// closed says why nothing may be done to the system now.
func (r *region) closed() string {
	switch {
	case r.state == nil:
		return "no member of the system answers"
	case !r.state.HasQuorum():
		return "the system has no quorum"
	case r.state.Leader == 0:
		return "the system has no leader"
	}
	return ""
}

// spared says that the system has no quorum without the member of a step.
func (r *region) spared(step coordination.Step) string {
	m, known := r.find(step)
	if !known || step.Do == plan.Restart && (r.state.Spares(m.ID) || len(r.state.Voters()) == 1) ||
		step.Do == plan.Remove && r.state.SparesForever(m.ID) || step.Do != plan.Restart && step.Do != plan.Remove {
		return ""
	}
	return fmt.Sprintf("without %s the system has no quorum", step.Member())
}

// unwell says what is wrong with a member. One that is far behind is not yet what it was before it was disturbed.
func unwell(m system.Member) string {
	switch {
	case m.Health.Problem != "":
		return m.Health.Problem
	case !m.Healthy():
		return "it follows no leader"
	case !m.CaughtUp():
		return fmt.Sprintf("it is %d entries behind", m.Health.Lag)
	}
	return ""
}

// lost is a member that nobody is left to stop and that the system can do without now.
func (r *region) lost() coordination.MemberID {
	for _, id := range slices.Sorted(maps.Keys(r.pending(Removal))) {
		if m, known := r.state.Named(string(id)); known && r.state.HasQuorum() && r.state.SparesForever(m.ID) {
			return id
		}
	}
	return ""
}

// find returns the member of a step by its name, or by its address as long as it has none.
func (r *region) find(step coordination.Step) (system.Member, bool) {
	return knownAs(agent.Member{ID: string(step.Member()), PeerURL: step.With[plan.Peer]}, r.state)
}

func (r *region) leader() coordination.MemberID {
	m, _ := r.state.Member(r.state.Leader)
	return coordination.MemberID(m.Name)
}

// planned is what plans are made for.
func (r *region) planned() plan.Cluster {
	c := plan.Cluster{Leader: r.leader()}
	for _, m := range r.state.Voters() {
		c.Voters = append(c.Voters, coordination.MemberID(m.Name))
		if !m.Healthy() {
			c.Sick = append(c.Sick, coordination.MemberID(m.Name))
		}
	}
	c.Candidates = slices.DeleteFunc(r.view.Candidates(c.Voters, Removal, Exclusion), func(id coordination.MemberID) bool {
		return slices.ContainsFunc(r.needs.pending, func(need coordination.Need) bool { return need.Member == id })
	})
	return c
}

// pending are the members that need an action: of all regions, or in local mode of this one, which has told nobody.
func (r *region) pending(action coordination.Action) coordination.Members {
	return r.members(action, false)
}

// members are those that need an action, or are ready for it.
func (r *region) members(action coordination.Action, ready bool) coordination.Members {
	if pending, readyFor := action.Sets(); r.global() && ready {
		return r.view.Sets[readyFor]
	} else if r.global() {
		return r.view.Sets[pending]
	}
	own := coordination.Members{}
	for _, need := range r.needs.pending {
		if need.Action == action && (need.Ready || !ready) {
			own[need.Member] = coordination.Member{Prefix: string(r.cluster.Spec.ProcessGroupIDPrefix), Addresses: need.Addresses}
		}
	}
	return own
}

func (r *region) global() bool {
	return r.cluster.Spec.AutomationOptions.Mode() == etcdclusterv1alpha1.SynchronizationGlobal
}

// deadline is when a step began that is waited for.
type deadline struct {
	step  string
	since time.Time
}
