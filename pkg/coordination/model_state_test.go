package coordination

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const modelSystemName = "model"

// modelState is the state of the model: the store, the members, and the processes of the participants. It is immutable.
type modelState struct {
	scenario       *scenario
	store          memoryContent
	now            time.Time
	members        []member
	processes      []*process
	delayedCommits []delayedCommit
	reversed       bool   // the order that Replan returns
	started        int    // processes
	running        string // the process whose Reconcile went on last and has not ended
	cachedView     *View  // of the store's content, if it was read
	ticks          int
	removed        bool // a registration
	violation      string
}

// delayedCommit is a transaction that may take effect although its process got an error.
type delayedCommit struct {
	transaction kv.Transaction
	by          *process
}

func (w *modelState) clone() *modelState {
	next := *w
	next.processes = slices.Clone(w.processes)
	return &next
}

func (w *modelState) reportViolation(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
	}
}

// view returns the view of the store.
func (w *modelState) view() *View {
	if w.cachedView == nil || w.cachedView.Revision != w.store.revision {
		view, err := w.scenario.keys.view(w.store.read(w.scenario.keys.root))
		if err != nil {
			panic(err)
		}
		w.cachedView = view
	}
	return w.cachedView
}

// commit applies a transaction and checks it.
func (w *modelState) commit(by *process, t kv.Transaction) error {
	after, err := w.store.commit(t)
	if err != nil {
		return err
	}
	before := w.view()
	w.store = after
	w.checkCommit(by, t, before, w.view())
	return nil
}

// checkCommit checks a change of the store.
func (w *modelState) checkCommit(by *process, t kv.Transaction, before, after *View) {
	if after.Token < before.Token {
		w.reportViolation("the token fell from %d to %d", before.Token, after.Token)
	}
	if after.Lock != nil && (before.Lock == nil || before.Lock.Session != after.Lock.Session) && after.Lock.Token <= before.Token {
		w.reportViolation("the lock was taken under the token %d, which is not larger than %d", after.Lock.Token, before.Token)
	}
	w.checkAnswers(by, before, after)
	w.checkSuperseded(by, t, after)
	switch {
	case before.Intent == nil && after.Intent != nil:
		w.checkBegin(before, after)
	case before.Intent != nil:
		w.checkProgress(before, after)
	}
}

// checkAnswers checks the answers to orders.
func (w *modelState) checkAnswers(by *process, before, after *View) {
	for id, answer := range after.Answers {
		if answer == before.Answers[id] {
			continue
		}
		m := w.member(id)
		switch {
		case !answer.Done && answer.Fenced == 0 && !answer.isFor(before.Intent):
			w.reportViolation("%s accepted an order that has ended", by.name)
		case answer.Done && answer.Failure == "" && (m.disturbed || m.task != fmt.Sprintf("%s/%d/%d", modelSystemName, answer.Intent, answer.Step)):
			w.reportViolation("%s answered that %s is restarted, and it is not", by.name, id)
		}
	}
}

// checkSuperseded checks that a process that has read of a newer one of its participant only finishes accepted orders.
func (w *modelState) checkSuperseded(by *process, t kv.Transaction, after *View) {
	var last *kv.Snapshot
	for _, a := range by.log {
		if a.snapshot != nil && len(a.snapshot.Entries) > 0 {
			last = a.snapshot
		}
	}
	if last == nil {
		return
	}
	own, newer := Instance{}, false
	processes := w.scenario.keys.processes(last)
	for _, i := range processes {
		if i.Session == by.session {
			own = i
		}
	}
	for _, i := range processes {
		newer = newer || own.Session != "" && i.Name == own.Name && i.JoinedAt > own.JoinedAt
	}
	if !newer {
		return
	}
	for _, operation := range t.Then {
		segments := w.scenario.keys.split(operation.Key)
		takes := segments[0] == kindLock && !operation.Delete
		accepts := segments[0] == kindAnswers && !operation.Delete && !after.Answers[MemberID(segments[2])].Done
		if takes || accepts || Set(segments[0]).known() {
			w.reportViolation("%s works although it has seen a newer process of its participant: %s", by.name, operation.Key)
		}
	}
}

// checkBegin checks the beginning of an action: all pending members are ready and part of it, or left out.
func (w *modelState) checkBegin(before, after *View) {
	intent := after.Intent
	if len(before.incomplete) > 0 {
		w.reportViolation("the action began although the declarations of %v are incomplete", before.incomplete)
	}
	if after.Lock == nil || after.Lock.Token != intent.Token {
		w.reportViolation("the action began without the lock")
	}
	pending, ready := intent.Action.Sets()
	for id, m := range before.Sets[pending] {
		_, isReady := before.Sets[ready][id]
		version, ok := intent.Members[id]
		_, out := intent.LeftOut[id]
		switch {
		case slices.ContainsFunc(before.DoneRecords, func(d DoneRecord) bool {
			return d.Action == intent.Action && d.Failure == "" && d.Members[id] >= m.Version
		}):
			if ok {
				w.reportViolation("the action began for %s, for which it is done", id)
			}
		case out:
		case !ok || version != m.Version:
			w.reportViolation("the action began without %s as it is pending", id)
		case !isReady && ready != "":
			w.reportViolation("the action began although %s is not ready", id)
		}
	}
	for id := range intent.Members {
		if _, ok := before.Sets[pending][id]; !ok {
			w.reportViolation("the action began for %s, which is not pending", id)
		}
	}
}

// checkProgress checks the progress of an intent: steps are in sequence, and no accepted order is dropped.
func (w *modelState) checkProgress(before, after *View) {
	previous, intent := before.Intent, after.Intent
	same := intent != nil && intent.ID == previous.ID
	switch {
	case intent != nil && !same:
		w.reportViolation("an intent was replaced by another one")
	case same && (intent.StepIndex < previous.StepIndex || intent.StepIndex > previous.StepIndex+1):
		w.reportViolation("the intent went from step %d to %d", previous.StepIndex, intent.StepIndex)
	case same && intent.Token < previous.Token:
		w.reportViolation("the token of the intent fell from %d to %d", previous.Token, intent.Token)
	}
	step := previous.step()
	if step == nil || !step.Order {
		return
	}
	current := intent.step()
	for _, id := range step.Members {
		if same && intent.StepIndex == previous.StepIndex && slices.Contains(current.Members, id) {
			continue
		}
		if step.Together && !previous.AllAccepted {
			if same && intent.StepIndex > previous.StepIndex {
				w.reportViolation("a step with Together ended before it began")
			}
			continue
		}
		answer := before.Answers[id]
		if answer.pending(previous) && w.member(id).seen <= answer.Token {
			w.reportViolation("the order to %s %s was accepted and not answered, and the action continues", step.Do, id)
		}
		if _, out := intent.leftOut(id); same && !w.isCarriedOut(id, previous) && !answer.completes(previous) && !out {
			w.reportViolation("the action continues as if %s were restarted", id)
		}
		if intent == nil && !w.isCarriedOut(id, previous) && !answer.completes(previous) && before.Intent.ID == after.lastDone().ID && after.lastDone().Failure == "" {
			w.reportViolation("the action is done as if %s were restarted", id)
		}
	}
	if same && intent.StepIndex == previous.StepIndex {
		for _, id := range current.Members {
			if !slices.Contains(step.Members, id) {
				w.reportViolation("the published step was replaced by another one")
			}
		}
	}
}

// isCarriedOut reports whether the current step of an intent is done for a member. Its answer is removed when its participant leaves.
func (w *modelState) isCarriedOut(id MemberID, intent *Intent) bool {
	m := w.member(id)
	return !m.disturbed && m.task == fmt.Sprintf("%s/%d/%d", modelSystemName, intent.ID, intent.StepIndex)
}

// newest returns the newest process of a participant.
func (w *modelState) newest(participant int) (newest *process) {
	for _, p := range w.processes {
		if p.participant == participant && (newest == nil || p.incarnation > newest.incarnation) {
			newest = p
		}
	}
	return newest
}

func (i *Intent) leftOut(id MemberID) (string, bool) {
	if i == nil {
		return "", false
	}
	reason, ok := i.LeftOut[id]
	return reason, ok
}

func (v *View) lastDone() DoneRecord {
	if len(v.DoneRecords) == 0 {
		return DoneRecord{}
	}
	return slices.MaxFunc(v.DoneRecords, func(a, b DoneRecord) int { return int(a.ID - b.ID) })
}

// unfinished returns what remains to be done, or "".
func (w *modelState) unfinished() string {
	view := w.view()
	for _, m := range w.members {
		if m.needs() || m.disturbed {
			return fmt.Sprintf("%s waits for its restart", m.id)
		}
	}
	switch {
	case view.Intent != nil:
		return "an intent is left"
	case view.Lock != nil:
		return "a lock is left"
	case len(view.Answers) > 0:
		return "answers are left"
	case len(w.delayedCommits) > 0:
		return "a delayed transaction is left"
	}
	for set, members := range view.Sets {
		if len(members) > 0 {
			return fmt.Sprintf("%v are in %s", slices.Sorted(maps.Keys(members)), set)
		}
	}
	if left := view.DeadParticipants(); len(left) > 0 {
		return fmt.Sprintf("entries are left below %v", left)
	}
	global := 0
	for i := range w.scenario.participants {
		if p := w.newest(i); p != nil && w.scenario.settings(p).Mode == Global {
			global++
		}
	}
	if len(view.Participants) != global || len(view.Instances) != global {
		return "wrong number of registered participants"
	}
	return ""
}
