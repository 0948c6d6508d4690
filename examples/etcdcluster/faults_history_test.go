package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// moment is what the operators had said at one revision of the store.
type moment struct {
	Lock   *coordination.Lock
	Token  int64
	Intent *coordination.Intent
	// Done are by their keys, answers by the members that they are for, denied by the names of the instances.
	Done    map[string]coordination.DoneRecord
	answers map[string]coordination.Answer
	denied  map[string]bool
	// ended tells whether a session is over, for stores that may give what it had to another one at once.
	ended func(session string) bool
}

// momentOf understands the entries below the root.
func momentOf(entries map[string]string) (moment, error) {
	now := moment{Done: map[string]coordination.DoneRecord{}, answers: map[string]coordination.Answer{}, denied: map[string]bool{}, ended: func(string) bool { return false }}
	for key, value := range entries {
		var err error
		switch kind, rest, _ := strings.Cut(key, "/"); kind {
		case "lock":
			err = json.Unmarshal([]byte(value), &now.Lock)
		case "token":
			err = json.Unmarshal([]byte(value), &now.Token)
		case "intent":
			err = json.Unmarshal([]byte(value), &now.Intent)
		case "done":
			var done coordination.DoneRecord
			err = json.Unmarshal([]byte(value), &done)
			now.Done[rest] = done
		case "answers":
			var answer coordination.Answer
			err = json.Unmarshal([]byte(value), &answer)
			_, member, _ := strings.Cut(rest, "/")
			now.answers[member] = answer
		case "denied":
			_, name, _ := strings.Cut(rest, "/")
			now.denied[name] = true
		}
		if err != nil {
			return now, fmt.Errorf("reading %s: %w", key, err)
		}
	}
	return now, nil
}

// history goes through all that was ever written, one revision after the other, and names what should not be: tokens only
// grow, a holder is followed by another one only after it has lost the lock, nothing is written under another token than
// that of the lock, what was begun is done, and done once, an order is accepted as it stands, answered before anything else is
// ordered, and never accepted beside one of another step.
type history struct {
	last moment
	// at is where each intent was last, done are those that have ended.
	at     map[int64]int
	done   map[int64]bool
	grants int
	// granted are the tokens of the lock, accepted those under which a task was accepted, and open the tasks without an outcome.
	granted  map[int64]bool
	accepted map[task][]int64
	open     map[task]bool
	wrong    []string
}

// task is what a step is for one of its members.
type task struct {
	intent int64
	step   int
	member string
}

func (t task) String() string { return fmt.Sprintf("step %d of %d for %s", t.step, t.intent, t.member) }

func newHistory() *history {
	return &history{at: map[int64]int{}, done: map[int64]bool{}, granted: map[int64]bool{}, accepted: map[task][]int64{}, open: map[task]bool{}}
}

func (h *history) note(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// next takes the moment after the one before.
func (h *history) next(now moment) {
	before := h.last
	h.last = now
	h.takeToken(before, now)
	h.takeLock(before, now)
	h.takeAnswers(before, now)
	h.takeIntent(before, now)
	h.takeDone(before, now)
}

func (h *history) takeToken(before, now moment) {
	if now.Token < before.Token {
		h.note("the token %d is followed by %d", before.Token, now.Token)
	}
	if now.Token != before.Token && (now.Lock == nil || now.Lock.Token != now.Token) {
		h.note("the token %d is written without its lock", now.Token)
	}
}

func (h *history) takeLock(before, now moment) {
	if now.Lock == nil || before.Lock != nil && *before.Lock == *now.Lock {
		return
	}
	h.grants++
	h.granted[now.Lock.Token] = true
	if now.Lock.Token <= before.Token {
		h.note("%s gets the lock with the token %d after %d", now.Lock.Holder, now.Lock.Token, before.Token)
	}
	if now.Lock.Token != now.Token {
		h.note("%s gets the lock with the token %d, and the newest is %d", now.Lock.Holder, now.Lock.Token, now.Token)
	}
	if lost := before.Lock; lost != nil && lost.Session != now.Lock.Session && !before.denied[lost.Holder] && !now.ended(lost.Session) {
		h.note("%s takes the lock of %s with the token %d", now.Lock.Holder, lost.Holder, lost.Token)
	}
}

func (h *history) takeAnswers(before, now moment) {
	for _, member := range slices.Sorted(maps.Keys(now.answers)) {
		answer := now.answers[member]
		if before.answers[member] == answer {
			continue
		}
		t := task{answer.Intent, answer.Step, member}
		if answer.Done || answer.Fenced > 0 {
			if len(h.accepted[t]) == 0 {
				h.note("%s is answered and was never accepted", t)
			}
			delete(h.open, t)
			continue
		}
		if i := now.Intent; i == nil || i.ID != t.intent || i.StepIndex != t.step || i.Token != answer.Token {
			h.note("%s is accepted under the token %d, and is not what is ordered", t, answer.Token)
		}
		for _, other := range h.unanswered() {
			if other.intent != t.intent || other.step != t.step {
				h.note("%s is accepted while nobody has answered %s", t, other)
			}
		}
		h.accepted[t], h.open[t] = append(h.accepted[t], answer.Token), true
	}
	for _, t := range h.unanswered() {
		if _, there := now.answers[t.member]; !there {
			h.note("%s was accepted and is forgotten", t)
			delete(h.open, t)
		}
	}
}

// unanswered are the tasks that were accepted and have no outcome, in an order.
func (h *history) unanswered() []task {
	return slices.SortedFunc(maps.Keys(h.open), func(a, b task) int { return strings.Compare(a.String(), b.String()) })
}

// end is what should not be when nothing more is written.
func (h *history) end() {
	for _, t := range h.unanswered() {
		h.note("nobody has answered %s", t)
	}
}

// unjustified are the orders of a system that an agent should not have carried out: those that nobody has accepted under their
// token, or that were given for one participant alone under a token that nobody has had.
func (h *history) unjustified(system string, orders []order) (wrong []string) {
	for _, o := range orders {
		if o.System != system || o.Order == "bootstrap" { // before there is anything to agree on
			continue
		}
		name := fmt.Sprintf("%s of %s", o.Order, o.Member)
		parts := strings.Split(o.Order, "/")
		t := task{member: o.Member}
		if _, err := fmt.Sscan(strings.Join(parts[1:max(1, len(parts)-1)], " "), &t.intent, &t.step); err != nil || len(parts) != 4 {
			wrong = append(wrong, name+" is not an order of the library")
			continue
		}
		_, published := h.at[t.intent]
		switch {
		case published && !slices.Contains(h.accepted[t], o.Token):
			wrong = append(wrong, fmt.Sprintf("%s was carried out under the token %d, and was not accepted under it", name, o.Token))
		case !published && !h.granted[o.Token]:
			wrong = append(wrong, fmt.Sprintf("%s was carried out under the token %d, and nobody had it", name, o.Token))
		}
	}
	return wrong
}

func (h *history) takeIntent(before, now moment) {
	if left := before.Intent; left != nil && (now.Intent == nil || now.Intent.ID != left.ID) && !now.says(left.ID) {
		h.note("the intent %d is gone, and nobody says that it is done", left.ID)
	}
	for _, t := range h.unanswered() {
		if now.Intent == nil || now.Intent.ID != t.intent || now.Intent.StepIndex != t.step {
			h.note("nobody has answered %s, and it is gone on from there", t)
		}
	}
	intent := now.Intent
	if intent == nil || reflect.DeepEqual(before.Intent, intent) {
		return
	}
	if now.Lock == nil || intent.Token != now.Lock.Token || intent.Holder != now.Lock.Holder {
		h.note("%s writes the intent %d under the token %d, and the lock is %v", intent.Holder, intent.ID, intent.Token, now.Lock)
	}
	if intent.StepIndex < h.at[intent.ID] {
		h.note("the intent %d is at step %d after step %d", intent.ID, intent.StepIndex, h.at[intent.ID])
	}
	if h.done[intent.ID] {
		h.note("the intent %d is written again after it was done", intent.ID)
	}
	h.at[intent.ID] = intent.StepIndex
}

// says tells whether there is a record that something is done.
func (m moment) says(intent int64) bool {
	for _, done := range m.Done {
		if done.ID == intent {
			return true
		}
	}
	return false
}

func (h *history) takeDone(before, now moment) {
	for key, done := range now.Done {
		if was, known := before.Done[key]; known {
			if !reflect.DeepEqual(was, done) {
				h.note("what was said of %d is changed", done.ID)
			}
			continue
		}
		if before.Lock == nil || done.Token != before.Lock.Token {
			h.note("%d is done under the token %d, and the lock was %v", done.ID, done.Token, before.Lock)
		}
		if h.done[done.ID] {
			h.note("%d is done twice", done.ID)
		}
		h.done[done.ID] = true
	}
}
