package coordination

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Lock says who may act.
type Lock struct {
	Holder string `json:"holder"`
	Prefix string `json:"prefix,omitempty"`
	// Token is larger than that of every holder before.
	Token int64 `json:"token"`
	// Session is that of the holder.
	Session string `json:"session"`
	// Since is for people: when that was by the holder's clock.
	Since time.Time `json:"since"`
}

// Step is a part of a plan, done to one member or to several.
type Step struct {
	// Do says what is done, in the words of the operators.
	Do string `json:"do"`
	// Members are those that it is done to.
	Members []MemberID `json:"members,omitempty"`
	// Order is set when the participants of the members carry it out, each for its own. Otherwise the holder of the lock does.
	Order bool `json:"order,omitempty"`
	// Together is set for an order that no participant carries out before all of them have accepted it.
	Together bool `json:"together,omitempty"`
	// With is what else is needed.
	With map[string]string `json:"with,omitempty"`
}

// Member is the member of a step that has one, the first of several, or "".
func (s Step) Member() MemberID {
	if len(s.Members) == 0 {
		return ""
	}
	return s.Members[0]
}

// without is the step without some of its members.
func (s Step) without(ids ...MemberID) Step {
	s.Members = slices.DeleteFunc(slices.Clone(s.Members), func(id MemberID) bool { return slices.Contains(ids, id) })
	return s
}

// withoutMember are steps without a member: those that were about this one only are left out.
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
	return strings.TrimSpace(s.Do + " " + joined(s.Members))
}

// maxNamed is how many members of a step are named to people.
const maxNamed = 10

func joined(ids []MemberID) string {
	var all []string
	for _, id := range ids {
		if len(all) == maxNamed {
			return fmt.Sprintf("%s and %d more", strings.Join(all, ", "), len(ids)-maxNamed)
		}
		all = append(all, string(id))
	}
	return strings.Join(all, ", ")
}

// Intent says what is being done. It is written before anything is done, and lasts until all of it is.
type Intent struct {
	// ID is the token under which it was begun.
	ID     int64  `json:"id"`
	Action Action `json:"action"`
	Class  string `json:"class,omitempty"`
	// Members are the versions of the entries that asked for it.
	Members map[MemberID]int64 `json:"members,omitempty"`
	// LeftOut says why it is done without some that had asked for it.
	LeftOut map[MemberID]string `json:"leftOut,omitempty"`
	// Beside is what else its members needed when it was decided. What they need after that comes first if they cannot become
	// healthy.
	Beside map[MemberID][]Action `json:"beside,omitempty"`
	Steps  []Step                `json:"steps,omitempty"`
	// At is the step that is to be done now, the number of steps when all are done.
	At int `json:"at"`
	// Go is set when all participants have accepted a step that they carry out together.
	Go bool `json:"go,omitempty"`
	// Seen is the revision at which it was decided.
	Seen int64 `json:"seen,omitempty"`
	// Token is that of the instance which goes on with it now, By its name.
	Token int64  `json:"token"`
	By    string `json:"by"`
	// Since is for people: when it was begun by the clock of the instance that began it.
	Since time.Time `json:"since"`
}

// step is the one that is to be done now, if any.
func (i *Intent) step() *Step {
	if i == nil || i.At >= len(i.Steps) {
		return nil
	}
	return &i.Steps[i.At]
}

// beside returns what else the members of all steps need.
func (i *Intent) beside(needed needed) map[MemberID][]Action {
	var members []MemberID
	for _, step := range i.Steps {
		members = append(members, step.Members...)
	}
	return needed.beside(i.Action, members...)
}

// needed are the actions that members need, with the versions of the entries that say so, 0 if there are none.
type needed map[MemberID]map[Action]int64

func (n needed) add(id MemberID, action Action, version int64) {
	if n[id] == nil {
		n[id] = map[Action]int64{}
	}
	n[id][action] = version
}

// beside returns what members need beside an action.
func (n needed) beside(action Action, members ...MemberID) map[MemberID][]Action {
	beside := map[MemberID][]Action{}
	for _, id := range members {
		for _, other := range sortedKeys(n[id]) {
			if other != action && !slices.Contains(beside[id], other) {
				beside[id] = append(beside[id], other)
			}
		}
	}
	return beside
}

// members are those of the present step.
func (i *Intent) members() []MemberID {
	if step := i.step(); step != nil {
		return step.Members
	}
	return nil
}

// Done says what was done, or given up.
type Done struct {
	Intent
	// Failure says why it was given up. What it had done until then stays done.
	Failure string    `json:"failure,omitempty"`
	Until   time.Time `json:"until"`
}

// Answer is what a participant says of an order, for one of its members: first that it accepts it, and then what came of it.
type Answer struct {
	// Intent and Step are what it answers.
	Intent int64 `json:"intent"`
	Step   int   `json:"step"`
	// Token is the one under which it was ordered.
	Token int64 `json:"token"`
	// Process is the session of the process that has accepted it.
	Process string `json:"process,omitempty"`
	// Done is set when the order was carried out, or cannot be.
	Done bool `json:"done,omitempty"`
	// Failure says why the order cannot be carried out.
	Failure string `json:"failure,omitempty"`
	// Fenced is the newest token that the system has seen, if it has refused the order because of it.
	Fenced int64 `json:"fenced,omitempty"`
}

// isOf tells whether it is about the step that is to be done now.
func (a Answer) isOf(i *Intent) bool { return i != nil && a.Intent == i.ID && a.Step == i.At }

// answers tells whether it is the outcome of the step that is to be done now.
func (a Answer) answers(i *Intent) bool { return a.Done && a.isOf(i) }

// pending tells whether the step that is to be done now is being carried out, as far as anybody knows.
func (a Answer) pending(i *Intent) bool { return !a.Done && a.Fenced == 0 && a.isOf(i) }

// before tells whether it is about an earlier step.
func (a Answer) before(b Answer) bool {
	return a.Intent < b.Intent || a.Intent == b.Intent && a.Step < b.Step
}

// tokenKey sorts done records by their age.
func tokenKey(token int64) string { return fmt.Sprintf("%019d", token) }

func parseToken(value string) (int64, error) {
	if value == "" {
		return 0, nil
	}
	return strconv.ParseInt(value, 10, 64)
}

// encode is for records of this package, which can all be written as JSON.
func encode(record any) string {
	content, err := json.Marshal(record)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be written as JSON: %v", record, err))
	}
	return string(content)
}
