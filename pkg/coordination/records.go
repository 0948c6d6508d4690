package coordination

import (
	"encoding/json"
	"fmt"
	"strconv"
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

// Step is a part of what an intent wants done. A step that only the instance of a member can do is an order to
// it; it answers when it has carried it out.
type Step struct {
	// Do says what is done, in the words of the operator.
	Do string `json:"do"`
	// Member is whom it is done to.
	Member MemberID `json:"member,omitempty"`
	// Order is set when it is for the instance of the member to do it.
	Order bool `json:"order,omitempty"`
	// With is what else is needed.
	With map[string]string `json:"with,omitempty"`
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
	Steps   []Step              `json:"steps,omitempty"`
	// At is the step that is to be done now, the number of steps when all are done.
	At int `json:"at"`
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

// Done says what was done, or given up.
type Done struct {
	Intent
	// Failure says why it was given up. What it had done until then stays done.
	Failure string    `json:"failure,omitempty"`
	Until   time.Time `json:"until"`
}

// Answer is what an instance says of an order.
type Answer struct {
	// Intent and Step are what it answers.
	Intent int64 `json:"intent"`
	Step   int   `json:"step"`
	// Token is the one under which it was ordered.
	Token int64 `json:"token"`
	// Failure says why the order cannot be carried out.
	Failure string `json:"failure,omitempty"`
}

// answers tells whether it is about the step that is to be done now.
func (a Answer) answers(i *Intent) bool { return i != nil && a.Intent == i.ID && a.Step == i.At }

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
