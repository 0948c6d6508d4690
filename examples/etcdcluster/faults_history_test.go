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

// storeState is the state of the coordination at one revision of the store.
type storeState struct {
	Lock   *coordination.Lock
	Token  int64
	Intent *coordination.Intent
	// Done are the done records by key, answers are by member, denied by the name of the participant.
	Done    map[string]coordination.DoneRecord
	answers map[string]coordination.Answer
	denied  map[string]bool
	// ended reports whether a session has ended, for stores in which another session can take over entries in the
	// same revision.
	ended func(session string) bool
}

// decodeState decodes the entries below the root.
func decodeState(entries map[string]string) (storeState, error) {
	now := storeState{Done: map[string]coordination.DoneRecord{}, answers: map[string]coordination.Answer{}, denied: map[string]bool{}, ended: func(string) bool { return false }}
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

// history checks all revisions of a store, one after the other: tokens only grow, the lock changes its holder
// only after the former one has lost it, each write has the token of the lock, an intent ends with a done
// record, and only once, an order is accepted as published and answered before the next one, and no two steps
// are accepted at the same time.
type history struct {
	last storeState
	// stepOf is the last step of each intent, done are the intents that have ended.
	stepOf map[int64]int
	done   map[int64]bool
	grants int
	// granted are the tokens of the lock, accepted the tokens under which a task was accepted, and open the tasks
	// without an outcome.
	granted    map[int64]bool
	accepted   map[task][]int64
	open       map[task]bool
	violations []string
}

// task is a step for one of its members.
type task struct {
	intent int64
	step   int
	member string
}

func (t task) String() string { return fmt.Sprintf("step %d of %d for %s", t.step, t.intent, t.member) }

func newHistory() *history {
	return &history{stepOf: map[int64]int{}, done: map[int64]bool{}, granted: map[int64]bool{}, accepted: map[task][]int64{}, open: map[task]bool{}}
}

func (h *history) report(format string, args ...any) {
	h.violations = append(h.violations, fmt.Sprintf(format, args...))
}

// advance checks the next revision.
func (h *history) advance(now storeState) {
	before := h.last
	h.last = now
	h.checkToken(before, now)
	h.checkLock(before, now)
	h.checkAnswers(before, now)
	h.checkIntent(before, now)
	h.checkDone(before, now)
}

func (h *history) checkToken(before, now storeState) {
	if now.Token < before.Token {
		h.report("the token %d is followed by %d", before.Token, now.Token)
	}
	if now.Token != before.Token && (now.Lock == nil || now.Lock.Token != now.Token) {
		h.report("the token %d is written without its lock", now.Token)
	}
}

func (h *history) checkLock(before, now storeState) {
	if now.Lock == nil || before.Lock != nil && *before.Lock == *now.Lock {
		return
	}
	h.grants++
	h.granted[now.Lock.Token] = true
	if now.Lock.Token <= before.Token {
		h.report("%s gets the lock with the token %d after %d", now.Lock.Holder, now.Lock.Token, before.Token)
	}
	if now.Lock.Token != now.Token {
		h.report("%s gets the lock with the token %d, and the newest is %d", now.Lock.Holder, now.Lock.Token, now.Token)
	}
	if lost := before.Lock; lost != nil && lost.Session != now.Lock.Session && !before.denied[lost.Holder] && !now.ended(lost.Session) {
		h.report("%s takes the lock of %s with the token %d", now.Lock.Holder, lost.Holder, lost.Token)
	}
}

func (h *history) checkAnswers(before, now storeState) {
	for _, member := range slices.Sorted(maps.Keys(now.answers)) {
		answer := now.answers[member]
		if before.answers[member] == answer {
			continue
		}
		t := task{answer.Intent, answer.Step, member}
		if answer.Done || answer.Fenced > 0 {
			if len(h.accepted[t]) == 0 {
				h.report("%s is answered and was never accepted", t)
			}
			delete(h.open, t)
			continue
		}
		if i := now.Intent; i == nil || i.ID != t.intent || i.StepIndex != t.step || i.Token != answer.Token {
			h.report("%s is accepted under the token %d, and is not what is ordered", t, answer.Token)
		}
		for _, other := range h.unanswered() {
			if other.intent != t.intent || other.step != t.step {
				h.report("%s is accepted while nobody has answered %s", t, other)
			}
		}
		h.accepted[t], h.open[t] = append(h.accepted[t], answer.Token), true
	}
	for _, t := range h.unanswered() {
		if _, there := now.answers[t.member]; !there {
			h.report("%s was accepted and is forgotten", t)
			delete(h.open, t)
		}
	}
}

// unanswered returns the accepted tasks without an outcome, sorted.
func (h *history) unanswered() []task {
	return slices.SortedFunc(maps.Keys(h.open), func(a, b task) int { return strings.Compare(a.String(), b.String()) })
}

// checkEnd checks the end of the history.
func (h *history) checkEnd() {
	for _, t := range h.unanswered() {
		h.report("nobody has answered %s", t)
	}
}

// unjustifiedOrders returns the orders of a system that an agent should not have carried out: those that were
// not accepted under their token, or in local mode have a token that was never granted.
func (h *history) unjustifiedOrders(system string, orders []order) (wrong []string) {
	for _, o := range orders {
		if o.System != system || o.Order == "bootstrap" { // before the coordination begins
			continue
		}
		name := fmt.Sprintf("%s of %s", o.Order, o.Member)
		parts := strings.Split(o.Order, "/")
		t := task{member: o.Member}
		if _, err := fmt.Sscan(strings.Join(parts[1:max(1, len(parts)-1)], " "), &t.intent, &t.step); err != nil || len(parts) != 4 {
			wrong = append(wrong, name+" is not an order of the library")
			continue
		}
		_, published := h.stepOf[t.intent]
		switch {
		case published && !slices.Contains(h.accepted[t], o.Token):
			wrong = append(wrong, fmt.Sprintf("%s was carried out under the token %d, and was not accepted under it", name, o.Token))
		case !published && !h.granted[o.Token]:
			wrong = append(wrong, fmt.Sprintf("%s was carried out under the token %d, and nobody had it", name, o.Token))
		}
	}
	return wrong
}

func (h *history) checkIntent(before, now storeState) {
	if left := before.Intent; left != nil && (now.Intent == nil || now.Intent.ID != left.ID) && !now.hasDoneRecord(left.ID) {
		h.report("the intent %d is gone, and nobody says that it is done", left.ID)
	}
	for _, t := range h.unanswered() {
		if now.Intent == nil || now.Intent.ID != t.intent || now.Intent.StepIndex != t.step {
			h.report("nobody has answered %s, and it is gone on from there", t)
		}
	}
	intent := now.Intent
	if intent == nil || reflect.DeepEqual(before.Intent, intent) {
		return
	}
	if now.Lock == nil || intent.Token != now.Lock.Token || intent.Holder != now.Lock.Holder {
		h.report("%s writes the intent %d under the token %d, and the lock is %v", intent.Holder, intent.ID, intent.Token, now.Lock)
	}
	if intent.StepIndex < h.stepOf[intent.ID] {
		h.report("the intent %d is at step %d after step %d", intent.ID, intent.StepIndex, h.stepOf[intent.ID])
	}
	if h.done[intent.ID] {
		h.report("the intent %d is written again after it was done", intent.ID)
	}
	h.stepOf[intent.ID] = intent.StepIndex
}

// hasDoneRecord reports whether an intent has a done record.
func (m storeState) hasDoneRecord(intent int64) bool {
	for _, done := range m.Done {
		if done.ID == intent {
			return true
		}
	}
	return false
}

func (h *history) checkDone(before, now storeState) {
	for key, done := range now.Done {
		if was, known := before.Done[key]; known {
			if !reflect.DeepEqual(was, done) {
				h.report("what was said of %d is changed", done.ID)
			}
			continue
		}
		if before.Lock == nil || done.Token != before.Lock.Token {
			h.report("%d is done under the token %d, and the lock was %v", done.ID, done.Token, before.Lock)
		}
		if h.done[done.ID] {
			h.report("%d is done twice", done.ID)
		}
		h.done[done.ID] = true
	}
}
