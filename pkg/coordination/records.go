package coordination

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Lock is the record of the lock and its holder.
type Lock struct {
	Holder string `json:"holder"`
	Prefix string `json:"prefix,omitempty"`
	// Token is larger than that of every holder before.
	Token int64 `json:"token"`
	// Session is the ID of the holder's session.
	Session string `json:"session"`
	// Since is when the lock was taken, by the holder's clock. It is informational.
	Since time.Time `json:"since"`
}

// Step is a part of a plan, done to one member or to several.
type Step struct {
	// Do is the operation, with a name that the adopter chooses.
	Do string `json:"do"`
	// Members are the members that the step disturbs.
	Members []MemberID `json:"members,omitempty"`
	// Order is set if the participants carry the step out, each for its own members. Otherwise the holder of the lock does.
	Order bool `json:"order,omitempty"`
	// Together is set for an order that begins only after all participants have accepted it.
	Together bool `json:"together,omitempty"`
	// With has further parameters of the step.
	With map[string]string `json:"with,omitempty"`
}

// Member returns the first member of a step, or "".
func (s Step) Member() MemberID {
	if len(s.Members) == 0 {
		return ""
	}
	return s.Members[0]
}

// without returns the step without some of its members.
func (s Step) without(ids ...MemberID) Step {
	s.Members = slices.DeleteFunc(slices.Clone(s.Members), func(id MemberID) bool { return slices.Contains(ids, id) })
	return s
}

// withoutMember returns the steps without a member. It leaves out the steps that have no other member.
func withoutMember(steps []Step, id MemberID) (rest []Step) {
	for _, step := range steps {
		left := step.without(id)
		if len(left.Members) > 0 || len(step.Members) == 0 {
			rest = append(rest, left)
		}
	}
	return rest
}

func (s Step) String() string {
	return strings.TrimSpace(s.Do + " " + joinMembers(s.Members))
}

// maxNamedMembers is the maximum number of members in the text of a step.
const maxNamedMembers = 10

func joinMembers(ids []MemberID) string {
	var all []string
	for _, id := range ids {
		if len(all) == maxNamedMembers {
			return fmt.Sprintf("%s and %d more", strings.Join(all, ", "), len(ids)-maxNamedMembers)
		}
		all = append(all, string(id))
	}
	return strings.Join(all, ", ")
}

// Intent is the record of the action in progress. It is written before the first step and removed after the last one.
type Intent struct {
	// ID is the token under which the intent began.
	ID     int64  `json:"id"`
	Action Action `json:"action"`
	Class  string `json:"class,omitempty"`
	// Members are the members of the action, with the versions of the entries that asked for it.
	Members map[MemberID]int64 `json:"members,omitempty"`
	// LeftOut are the members that were left out, with the reasons.
	LeftOut map[MemberID]string `json:"leftOut,omitempty"`
	// OtherNeeds are the other actions that its members needed when it began. An action that a member needs only later comes first if
	// the member does not become healthy.
	OtherNeeds map[MemberID][]Action `json:"beside,omitempty"`
	Steps      []Step                `json:"steps,omitempty"`
	// StepIndex is the index of the current step, or the number of steps when all are done.
	StepIndex int `json:"at"`
	// AllAccepted is set when all participants have accepted a step that they carry out together.
	AllAccepted bool `json:"go,omitempty"`
	// DecidedAt is the revision at which the action was decided.
	DecidedAt int64 `json:"seen,omitempty"`
	// Token is the token of the current holder, and Holder its name.
	Token  int64  `json:"token"`
	Holder string `json:"by"`
	// Since is when the intent began, by the clock of the participant that began it. It is informational.
	Since time.Time `json:"since"`
}

// step returns the current step, or nil.
func (i *Intent) step() *Step {
	if i == nil || i.StepIndex >= len(i.Steps) {
		return nil
	}
	return &i.Steps[i.StepIndex]
}

// otherNeeds returns the other actions that the members of all steps need.
func (i *Intent) otherNeeds(needed needed) map[MemberID][]Action {
	var members []MemberID
	for _, step := range i.Steps {
		members = append(members, step.Members...)
	}
	return needed.otherNeeds(i.Action, members...)
}

// needed are the actions that members need, with the versions of the entries that declare them, or 0 without an entry.
type needed map[MemberID]map[Action]int64

func (n needed) add(id MemberID, action Action, version int64) {
	if n[id] == nil {
		n[id] = map[Action]int64{}
	}
	n[id][action] = version
}

// otherNeeds returns the actions that members need besides an action.
func (n needed) otherNeeds(action Action, members ...MemberID) map[MemberID][]Action {
	others := map[MemberID][]Action{}
	for _, id := range members {
		for _, other := range sortedKeys(n[id]) {
			if other != action && !slices.Contains(others[id], other) {
				others[id] = append(others[id], other)
			}
		}
	}
	return others
}

// stepMembers returns the members of the current step.
func (i *Intent) stepMembers() []MemberID {
	if step := i.step(); step != nil {
		return step.Members
	}
	return nil
}

// DoneRecord is the record of an action that was completed or given up.
type DoneRecord struct {
	Intent
	// Failure is the reason why the action was given up. Its completed steps are not undone.
	Failure string    `json:"failure,omitempty"`
	Until   time.Time `json:"until"`
}

// Answer is the answer of a participant to an order, for one of its members: first its acceptance, and then the outcome.
type Answer struct {
	// Intent and Step identify the order.
	Intent int64 `json:"intent"`
	Step   int   `json:"step"`
	// Token is the token of the order.
	Token int64 `json:"token"`
	// Session is the ID of the session of the process that has accepted the order.
	Session string `json:"process,omitempty"`
	// Done is set when the order was carried out, or cannot be.
	Done bool `json:"done,omitempty"`
	// Failure is the reason why the order cannot be carried out.
	Failure string `json:"failure,omitempty"`
	// Fenced is the newest token that the system has seen, if it has refused the order because of that token.
	Fenced int64 `json:"fenced,omitempty"`
}

// isFor reports whether the answer is to the current step.
func (a Answer) isFor(i *Intent) bool { return i != nil && a.Intent == i.ID && a.Step == i.StepIndex }

// completes reports whether the answer is the outcome of the current step.
func (a Answer) completes(i *Intent) bool { return a.Done && a.isFor(i) }

// pending reports whether the current step is being carried out, as far as the store shows.
func (a Answer) pending(i *Intent) bool { return !a.Done && a.Fenced == 0 && a.isFor(i) }

// before reports whether the answer is to an earlier step than another answer.
func (a Answer) before(b Answer) bool {
	return a.Intent < b.Intent || a.Intent == b.Intent && a.Step < b.Step
}

// tokenKey returns a token as a segment of a key. Segments sort like tokens.
func tokenKey(token int64) string { return fmt.Sprintf("%019d", token) }

func parseToken(value string) (int64, error) {
	if value == "" {
		return 0, nil
	}
	return strconv.ParseInt(value, 10, 64)
}

// encode returns a record as JSON. All records of this package can be encoded.
func encode(record any) string {
	content, err := json.Marshal(record)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be written as JSON: %v", record, err))
	}
	return string(content)
}
