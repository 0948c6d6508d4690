package coordinationstatus

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// Report is what there is to see. As JSON and YAML it is for programs: fields may be added, and keep their names and
// meaning.
type Report struct {
	// Time is when it was made, by this computer's clock.
	Time metav1.Time `json:"time"`
	// Store is where it was read, Flags how it is named in commands.
	Store   string   `json:"store"`
	Flags   string   `json:"-"`
	Systems []System `json:"systems"`
}

// System is all that is known of one, with what follows from it.
type System struct {
	*coordination.View
	// Roles are what the instances do, in their order.
	Roles []Role `json:"roles,omitempty"`
	// Actions are those that something is pending for, or ready.
	Actions []Action `json:"actions,omitempty"`
	// Asked is who has to carry out the present step of what is being done, if it is an order.
	Asked *Asked `json:"asked,omitempty"`
	// Orders are all parts of that step which are not answered.
	Orders []Order `json:"orders,omitempty"`
	// Superseded are processes that do not work because a newer one of their participant is alive.
	Superseded []coordination.Instance `json:"superseded,omitempty"`
	// Absent are participants that others expect and that are not there.
	Absent []Absent `json:"absent,omitempty"`
	// Incomplete are the prefixes of participants that have not written all that they need. No action begins meanwhile.
	Incomplete []string `json:"incomplete,omitempty"`
	// PolicyConflicts are what participants have published differently.
	PolicyConflicts []string `json:"policyConflicts,omitempty"`
	// Left are the prefixes of which no instance is alive.
	Left []Left `json:"left,omitempty"`
}

// Role is what an instance does.
type Role struct {
	Instance string `json:"instance"`
	Does     string `json:"does"`
}

// Action is what is wanted of an action, and what it waits for.
type Action struct {
	Action  coordination.Action `json:"action"`
	Members []Member            `json:"members"`
	// Waits are what has to happen before it can begin for those that it is not being done to.
	Waits []coordination.WaitReason `json:"waits,omitempty"`
}

// State is how far it is with a member.
type State string

// The states.
const (
	// NotReady is when it is pending, and not ready.
	NotReady State = "not ready"
	// Ready is when it is pending and ready.
	Ready State = "ready"
	// Doing is when it is being done.
	Doing State = "being done"
	// Planned is when something else is being done of which the member is a part.
	Planned State = "in the plan"
	// Done is when it was done, and its instance has not noticed yet.
	Done State = "done"
	// Unwanted is when it is ready, and nothing is pending.
	Unwanted State = "ready, not pending"
)

// Member is one that an action is wanted for.
type Member struct {
	ID        coordination.MemberID `json:"id"`
	Prefix    string                `json:"prefix"`
	State     State                 `json:"state"`
	Addresses []string              `json:"addresses,omitempty"`
	Version   int64                 `json:"version"`
}

// Asked is an order that was not answered yet.
type Asked struct {
	// Prefix is empty if it is not known whose the member is.
	Prefix string                `json:"prefix,omitempty"`
	Do     string                `json:"do"`
	Member coordination.MemberID `json:"member"`
}

// Left is a prefix of which no instance is alive.
type Left struct {
	Prefix string `json:"prefix"`
	// Members are those that it has entries for, by set.
	Members map[coordination.Set][]coordination.MemberID `json:"members,omitempty"`
	// Denies are the instances that it has put on the deny list.
	Denies []string `json:"denies,omitempty"`
}

// Of is the report about systems that were looked at, at a time.
func Of(now time.Time, store string, views ...*coordination.View) *Report {
	report := &Report{Time: metav1.NewTime(now), Store: store}
	for _, view := range views {
		report.Systems = append(report.Systems, describe(view))
	}
	return report
}

func describe(view *coordination.View) System {
	s := System{
		View: view, Orders: orders(view), Superseded: view.Superseded(), Absent: absent(view), Incomplete: view.Incomplete(),
		PolicyConflicts: policyConflicts(view),
	}
	for _, action := range view.Actions() {
		s.Actions = append(s.Actions, actionOf(view, action))
	}
	if step, prefix := view.Unanswered(); step != nil {
		s.Asked = &Asked{Prefix: prefix, Do: step.Do, Member: step.Member()}
	}
	for _, instance := range view.Instances {
		s.Roles = append(s.Roles, Role{instance.Name, s.does(instance)})
	}
	for _, prefix := range view.DeadParticipants() {
		s.Left = append(s.Left, leftBy(view, prefix))
	}
	return s
}

// actionOf is what is wanted of an action.
func actionOf(view *coordination.View, action coordination.Action) Action {
	about := Action{Action: action, Waits: view.WaitReasons(action)}
	pending, ready := action.Sets()
	undone := view.Pending(action)
	for _, id := range slices.Sorted(maps.Keys(view.Sets[pending])) {
		entry := view.Sets[pending][id]
		_, isUndone := undone[id]
		state := NotReady
		switch prepared, isReady := view.Sets[ready][id]; {
		case !isUndone:
			state = Done
		case view.InProgress(action, id):
			state = Doing
		case planned(view, id):
			state = Planned
		case ready == "" || isReady && prepared.Prefix == entry.Prefix:
			state = Ready
		}
		about.Members = append(about.Members, Member{id, entry.Prefix, state, view.Sets[ready][id].Addresses, entry.Version})
	}
	for _, id := range slices.Sorted(maps.Keys(view.Sets[ready])) {
		if _, isPending := view.Sets[pending][id]; !isPending {
			entry := view.Sets[ready][id]
			about.Members = append(about.Members, Member{id, entry.Prefix, Unwanted, entry.Addresses, entry.Version})
		}
	}
	return about
}

// planned tells whether a member has a part in what is being done.
func planned(view *coordination.View, id coordination.MemberID) bool {
	return view.Intent != nil && slices.ContainsFunc(view.Intent.Steps, func(step coordination.Step) bool { return slices.Contains(step.Members, id) })
}

// does says what an instance does, or what it waits for.
func (s *System) does(instance coordination.Instance) string {
	var all []string
	if s.Lock != nil && s.Lock.Holder == instance.Name {
		all = append(all, s.acts())
	}
	for i := range s.Orders {
		switch order := &s.Orders[i]; {
		case order.Prefix != instance.Prefix:
		case order.Accepted:
			all = append(all, "has accepted the order to "+order.what())
		default:
			all = append(all, "has to "+order.what())
		}
	}
	if n, step := s.next(instance.Prefix); step != nil {
		all = append(all, fmt.Sprintf("waits for step %d, %s", n+1, step))
	}
	for _, action := range s.Actions {
		var waiting, unready []coordination.MemberID
		for _, member := range action.Members {
			switch {
			case member.Prefix != instance.Prefix:
			case member.State == Ready:
				waiting = append(waiting, member.ID)
			case member.State == NotReady:
				unready = append(unready, member.ID)
			}
		}
		if len(waiting) > 0 {
			all = append(all, fmt.Sprintf("waits for the %s of %s", action.Action, prose.List(waiting)))
		}
		if len(unready) > 0 {
			all = append(all, fmt.Sprintf("makes %s ready for the %s", prose.List(unready), action.Action))
		}
	}
	if by := s.Denied[instance.Name]; by != nil {
		all = append(all, "on the deny list of "+prose.List(by))
	}
	return strings.Join(all, "; ")
}

// acts says what the holder of the lock does.
func (s *System) acts() string {
	if s.Intent == nil {
		return "holds the lock"
	}
	at, of := min(s.Intent.StepIndex+1, len(s.Intent.Steps)), len(s.Intent.Steps)
	return fmt.Sprintf("carries out the %s, step %d of %d", s.Intent.Action, at, of)
}

// next is the first step to come that is an order to the instance of a prefix.
func (s *System) next(prefix string) (int, *coordination.Step) {
	if s.Intent == nil {
		return 0, nil
	}
	for n := s.Intent.StepIndex + 1; n < len(s.Intent.Steps); n++ {
		if step := &s.Intent.Steps[n]; step.Order && slices.ContainsFunc(step.Members, func(id coordination.MemberID) bool { return s.Owner(id) == prefix }) {
			return n, step
		}
	}
	return 0, nil
}

func leftBy(view *coordination.View, prefix string) Left {
	left := Left{Prefix: prefix, Members: map[coordination.Set][]coordination.MemberID{}}
	for set, members := range view.Sets {
		for _, id := range slices.Sorted(maps.Keys(members)) {
			if members[id].Prefix == prefix {
				left.Members[set] = append(left.Members[set], id)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(view.Denied)) {
		if slices.Contains(view.Denied[name], prefix) {
			left.Denies = append(left.Denies, name)
		}
	}
	return left
}

// nothing is what an instance leaves behind that ended in good order.
const nothing = "nothing is pending"

// Says is what a prefix has left behind, in words.
func (l *Left) Says() string {
	var all []string
	for _, set := range slices.Sorted(maps.Keys(l.Members)) {
		all = append(all, fmt.Sprintf("%s in %s", prose.List(l.Members[set]), set))
	}
	if len(l.Denies) > 0 {
		all = append(all, "denies "+prose.List(l.Denies))
	}
	if len(all) == 0 {
		return nothing
	}
	return strings.Join(all, "; ")
}
