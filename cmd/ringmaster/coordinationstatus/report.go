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

// Report is the state of one or more systems. As JSON and YAML it is an interface for programs: fields may be added, but
// keep their names and meanings.
type Report struct {
	// Time is when the report was made, by the clock of this machine.
	Time metav1.Time `json:"time"`
	// Store describes the store, Flags are the flags that select it in commands.
	Store   string   `json:"store"`
	Flags   string   `json:"-"`
	Systems []System `json:"systems"`
}

// System is the state of a system, with conclusions from it.
type System struct {
	*coordination.View
	// Roles are the current work of the participants, in the order of View.Instances.
	Roles []Role `json:"roles,omitempty"`
	// Actions are the actions that members need or are ready for.
	Actions []Action `json:"actions,omitempty"`
	// AwaitedAnswer is the first missing answer to the current step, if the step is an order.
	AwaitedAnswer *AwaitedAnswer `json:"asked,omitempty"`
	// Orders are all parts of the current step without an answer.
	Orders []Order `json:"orders,omitempty"`
	// Superseded are processes that do not work because a newer one of their participant is alive.
	Superseded []coordination.Instance `json:"superseded,omitempty"`
	// Absent are expected participants that are not alive.
	Absent []Absent `json:"absent,omitempty"`
	// Incomplete are the prefixes of participants that have declared only a part of their needs. No action begins meanwhile.
	Incomplete []string `json:"incomplete,omitempty"`
	// PolicyConflicts are the differences between the published policies.
	PolicyConflicts []string `json:"policyConflicts,omitempty"`
	// Dead are the participants that are not alive and have not left.
	Dead []DeadParticipant `json:"left,omitempty"`
}

// Role is the current work of a participant.
type Role struct {
	Participant string `json:"instance"`
	Does        string `json:"does"`
}

// Action is the state of an action.
type Action struct {
	Action  coordination.Action `json:"action"`
	Members []Member            `json:"members"`
	// Waits are the reasons why it has not begun for the members without an action in progress.
	Waits []coordination.WaitReason `json:"waits,omitempty"`
	// Retry is set during the backoff after the action was given up.
	Retry *Retry `json:"retry,omitempty"`
}

// Retry is the next attempt of an action that was given up.
type Retry struct {
	// Failures is how often in a row the action was given up.
	Failures int `json:"failures"`
	// At is the earliest time of the next attempt, by the clock of the participant that gave the action up.
	At metav1.Time `json:"at"`

	delay time.Duration // until At
}

// State is the state of a member with regard to an action.
type State string

// The states.
const (
	// NotReady means that the member needs the action and is not ready for it.
	NotReady State = "not ready"
	// Ready means that the member needs the action and is ready for it.
	Ready State = "ready"
	// InProgress means that the action is in progress for the member.
	InProgress State = "being done"
	// Planned means that the member is part of another action, which is in progress.
	Planned State = "in the plan"
	// Done means that the action is done, and that the participant has not withdrawn the need yet.
	Done State = "done"
	// NotNeeded means that the member is ready for the action and does not need it.
	NotNeeded State = "ready, not pending"
)

// Member is a member that needs an action or is ready for it.
type Member struct {
	ID        coordination.MemberID `json:"id"`
	Prefix    string                `json:"prefix"`
	State     State                 `json:"state"`
	Addresses []string              `json:"addresses,omitempty"`
	Version   int64                 `json:"version"`
}

// AwaitedAnswer is a missing answer to an order.
type AwaitedAnswer struct {
	// Prefix is the prefix of the member's participant, or empty if that is unknown.
	Prefix string                `json:"prefix,omitempty"`
	Do     string                `json:"do"`
	Member coordination.MemberID `json:"member"`
}

// DeadParticipant is a participant without a live process.
type DeadParticipant struct {
	Prefix string `json:"prefix"`
	// Members are the members with entries of the participant, by set.
	Members map[coordination.Set][]coordination.MemberID `json:"members,omitempty"`
	// Denies are the participants on its deny list.
	Denies []string `json:"denies,omitempty"`
}

// Of returns the report on systems that were read at a time.
func Of(now time.Time, store string, views ...*coordination.View) *Report {
	report := &Report{Time: metav1.NewTime(now), Store: store}
	for _, view := range views {
		report.Systems = append(report.Systems, describe(view, now))
	}
	return report
}

func describe(view *coordination.View, now time.Time) System {
	s := System{
		View: view, Orders: orders(view), Superseded: view.Superseded(), Absent: absent(view), Incomplete: view.Incomplete(),
		PolicyConflicts: policyConflicts(view),
	}
	for _, action := range view.Actions() {
		s.Actions = append(s.Actions, actionOf(view, action, now))
	}
	if step, prefix := view.Unanswered(); step != nil {
		s.AwaitedAnswer = &AwaitedAnswer{Prefix: prefix, Do: step.Do, Member: step.Member()}
	}
	for _, instance := range view.Instances {
		s.Roles = append(s.Roles, Role{instance.Name, s.activity(instance)})
	}
	for _, prefix := range view.DeadParticipants() {
		s.Dead = append(s.Dead, deadParticipant(view, prefix))
	}
	return s
}

// actionOf returns the state of an action.
func actionOf(view *coordination.View, action coordination.Action, now time.Time) Action {
	about := Action{Action: action, Waits: view.WaitReasons(action), Retry: retryOf(view, action, now)}
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
			state = InProgress
		case isPlanned(view, id):
			state = Planned
		case ready == "" || isReady && prepared.Prefix == entry.Prefix:
			state = Ready
		}
		about.Members = append(about.Members, Member{id, entry.Prefix, state, view.Sets[ready][id].Addresses, entry.Version})
	}
	for _, id := range slices.Sorted(maps.Keys(view.Sets[ready])) {
		if _, isPending := view.Sets[pending][id]; !isPending {
			entry := view.Sets[ready][id]
			about.Members = append(about.Members, Member{id, entry.Prefix, NotNeeded, entry.Addresses, entry.Version})
		}
	}
	return about
}

// retryOf returns the next attempt of an action during its backoff, or nil.
func retryOf(view *coordination.View, action coordination.Action, now time.Time) *Retry {
	failures, backoff := view.Retry(action)
	for _, done := range view.DoneRecords {
		if done.Action != action {
			continue
		}
		retryAt := done.Until.Add(backoff)
		if failures == 0 || !now.Before(retryAt) {
			return nil
		}
		return &Retry{Failures: failures, At: metav1.NewTime(retryAt), delay: min(retryAt.Sub(now), backoff)} // clocks differ
	}
	return nil
}

// isPlanned reports whether a member is part of the action in progress.
func isPlanned(view *coordination.View, id coordination.MemberID) bool {
	return view.Intent != nil && slices.ContainsFunc(view.Intent.Steps, func(step coordination.Step) bool { return slices.Contains(step.Members, id) })
}

// activity returns the current work of a participant, and the reason why it waits.
func (s *System) activity(instance coordination.Instance) string {
	var all []string
	if s.Lock != nil && s.Lock.Holder == instance.Name {
		all = append(all, s.acts())
	}
	for i := range s.Orders {
		switch order := &s.Orders[i]; {
		case order.Prefix != instance.Prefix:
		case order.Accepted:
			all = append(all, "has accepted the order to "+order.String())
		default:
			all = append(all, "has to "+order.String())
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
	if deniedBy := s.Denied[instance.Name]; deniedBy != nil {
		all = append(all, "on the deny list of "+prose.List(deniedBy))
	}
	return strings.Join(all, "; ")
}

// acts returns the current work of the holder of the lock.
func (s *System) acts() string {
	if s.Intent == nil {
		return "holds the lock"
	}
	step, total := min(s.Intent.StepIndex+1, len(s.Intent.Steps)), len(s.Intent.Steps)
	return fmt.Sprintf("carries out the %s, step %d of %d", s.Intent.Action, step, total)
}

// next returns the first later step that is an order to the participant with a prefix.
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

func deadParticipant(view *coordination.View, prefix string) DeadParticipant {
	dead := DeadParticipant{Prefix: prefix, Members: map[coordination.Set][]coordination.MemberID{}}
	for set, members := range view.Sets {
		for _, id := range slices.Sorted(maps.Keys(members)) {
			if members[id].Prefix == prefix {
				dead.Members[set] = append(dead.Members[set], id)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(view.Denied)) {
		if slices.Contains(view.Denied[name], prefix) {
			dead.Denies = append(dead.Denies, name)
		}
	}
	return dead
}

// noEntries describes a participant that has only settings in the store, as after a regular stop.
const noEntries = "nothing is pending"

// Entries describes the entries of the participant.
func (d *DeadParticipant) Entries() string {
	var all []string
	for _, set := range slices.Sorted(maps.Keys(d.Members)) {
		all = append(all, fmt.Sprintf("%s in %s", prose.List(d.Members[set]), set))
	}
	if len(d.Denies) > 0 {
		all = append(all, "denies "+prose.List(d.Denies))
	}
	if len(all) == 0 {
		return noEntries
	}
	return strings.Join(all, "; ")
}
