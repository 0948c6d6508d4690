package coordination

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// The faults. A fault of a call replaces its response.
const (
	refused         = "refused"    // the call has no effect and returns an error
	unanswered      = "unanswered" // the call takes effect and returns an error
	delayed         = "delayed"    // the call returns an error, and may take effect later
	failingDatabase = "broken"     // Execute returns Failed
	crash           = "crash"      // the process dies; another one is started later
	hang            = "hang"       // the session expires although the process lives; it notices that at any time later
	second          = "second"     // a second process of the participant is started
	withdraw        = "withdraw"   // the need of a member is withdrawn, unless its restart has begun
	again           = "again"      // a member that was restarted needs another restart
	reverse         = "reverse"    // Replan reverses the remaining steps
	remove          = "remove"     // the registrations of a live participant are removed
)

// transition is a transition to another state.
type transition struct {
	name string
	// isFault is set if it counts as a fault, whose number is bounded.
	isFault bool
	next    func() *modelState
}

// transitions returns all possible transitions.
func (w *modelState) transitions() []transition {
	var all []transition
	add := func(name string, fault bool, do func(next *modelState)) {
		all = append(all, transition{name, fault, func() *modelState {
			next := w.clone()
			do(next)
			return next
		}})
	}
	for i, p := range w.processes {
		if !w.commitIsRefused(p) {
			continue
		}
		// It commutes with all other transitions, so it need not be explored later.
		add(p.name, false, func(next *modelState) { next.step(i, "") })
		if w.scenario.has(refused) {
			add(p.name+" "+refused, true, func(next *modelState) { next.step(i, refused) })
		}
		return all
	}
	for i, p := range w.processes {
		add(p.name, w.isPreemption(p), func(next *modelState) { next.step(i, "") })
		for _, fault := range w.callFaults(p) {
			add(p.name+" "+fault, true, func(next *modelState) { next.step(i, fault) })
		}
		w.addProcessTransitions(add, i, p)
	}
	for i := range w.scenario.participants {
		if w.alive(i) == 0 {
			add("start "+w.scenario.participants[i], false, func(next *modelState) { next.start(i) })
		}
	}
	for _, session := range sortedKeys(w.store.sessions) {
		if !slices.ContainsFunc(w.processes, func(p *process) bool { return p.session == session }) {
			add("expire "+session, false, func(next *modelState) { next.store = next.store.end(session) })
		}
	}
	for i, late := range w.delayedCommits {
		add("late "+late.by.name, false, func(next *modelState) {
			next.delayedCommits = slices.Delete(slices.Clone(next.delayedCommits), i, i+1)
			_ = next.commit(late.by, late.transaction)
		})
		add("dropped "+late.by.name, false, func(next *modelState) { next.delayedCommits = slices.Delete(slices.Clone(next.delayedCommits), i, i+1) })
	}
	if w.ticks < w.scenario.ticks && w.view().Intent != nil {
		add("time", false, func(next *modelState) { next.ticks, next.now = next.ticks+1, next.now.Add(time.Hour) })
	}
	w.addMemberTransitions(add)
	return all
}

// commitIsRefused reports whether the next commit of a process is refused in any case.
func (w *modelState) commitIsRefused(p *process) bool {
	return p.nextCommit != nil && !w.store.allMet(p.nextCommit.If)
}

// callFaults returns the possible faults of the next call of a process.
func (w *modelState) callFaults(p *process) (faults []string) {
	kind, _, _ := strings.Cut(p.next, " ")
	for _, fault := range w.scenario.faults {
		switch {
		case fault == refused && (kind == "commit" || kind == "read"), (fault == unanswered || fault == delayed) && kind == "commit",
			fault == failingDatabase && kind == "execute":
			faults = append(faults, fault)
		}
	}
	return faults
}

// addProcessTransitions adds the transitions of a process.
func (w *modelState) addProcessTransitions(add func(string, bool, func(*modelState)), i int, p *process) {
	if w.scenario.has(crash) {
		add(crash+" "+p.name, true, func(next *modelState) { next.processes = slices.Delete(next.processes, i, i+1) })
	}
	if w.scenario.has(hang) && w.store.sessions[p.session] {
		add(hang+" "+p.name, true, func(next *modelState) { next.store = next.store.end(p.session) })
	}
	if w.scenario.has(second) && w.alive(p.participant) == 1 {
		add(second+" "+w.scenario.participants[p.participant], true, func(next *modelState) { next.start(p.participant) })
	}
	if w.alive(p.participant) > 1 && p.incarnation < w.started {
		if slices.ContainsFunc(w.processes, func(q *process) bool { return q.participant == p.participant && q.incarnation > p.incarnation }) {
			add("end "+p.name, false, func(next *modelState) { next.processes = slices.Delete(next.processes, i, i+1) })
		}
	}
	if p.session != "" && !w.store.sessions[p.session] && !p.knowsSessionLost() {
		add("notice "+p.name, false, func(next *modelState) { next.notice(i) })
	}
	if w.scenario.has(remove) && !w.removed && w.store.sessions[p.session] {
		add(remove+" "+p.name, true, func(next *modelState) {
			next.removed = true
			next.store, _ = next.store.commit(kv.Transaction{Then: []kv.Operation{kv.DeleteBelow(w.scenario.keys.instances(w.scenario.participants[p.participant]))}})
		})
	}
}

// addMemberTransitions adds the transitions of the members.
func (w *modelState) addMemberTransitions(add func(string, bool, func(*modelState))) {
	change := func(i int, do func(m *member)) func(*modelState) {
		return func(next *modelState) {
			next.members = slices.Clone(next.members)
			do(&next.members[i])
		}
	}
	for i, m := range w.members {
		if m.disturbed {
			add("restarted "+string(m.id), false, func(next *modelState) { next.finish(i) })
		}
		if w.scenario.has(withdraw) && m.needs() && !m.disturbed {
			add(withdraw+" "+string(m.id), true, change(i, func(m *member) { m.wanted, m.withdrawn = m.wanted-1, true }))
		}
		if w.scenario.has(again) && !m.needs() {
			add(again+" "+string(m.id), true, change(i, func(m *member) { m.wanted, m.withdrawn = m.wanted+1, false }))
		}
	}
	if w.scenario.has(reverse) {
		add(reverse, false, func(next *modelState) { next.reversed = !next.reversed })
	}
}

// finish ends the restart of a member, if any.
func (w *modelState) finish(i int) {
	if w.members[i].disturbed {
		w.members = slices.Clone(w.members)
		w.members[i].disturbed, w.members[i].done = false, w.members[i].wanted
	}
}

func (w *modelState) alive(participant int) (count int) {
	for _, p := range w.processes {
		if p.participant == participant {
			count++
		}
	}
	return count
}

func (w *modelState) start(participant int) {
	w.started++
	p := newProcess(fmt.Sprintf("%s%d", w.scenario.participants[participant], w.started), participant, w.started)
	p.updated = slices.ContainsFunc(w.processes, func(other *process) bool { return other.participant == participant })
	w.processes = append(w.processes, p)
}

// step runs a process until after its next call.
func (w *modelState) step(i int, fault string) string {
	p := *w.processes[i]
	w.processes[i] = &p
	e := &execution{w: w, p: &p, allowedCalls: 1, fault: fault}
	call := e.run()
	if w.running = ""; p.next != "" {
		w.running = p.name
	}
	return call
}

// isPreemption reports whether a step of a process interrupts the Reconcile of another one, if that counts as a fault.
func (w *modelState) isPreemption(p *process) bool {
	return w.scenario.preemptions && w.running != "" && w.running != p.name && slices.ContainsFunc(w.processes, func(q *process) bool { return q.name == w.running })
}

// knowsSessionLost reports whether a process knows that its last session is lost.
func (p *process) knowsSessionLost() bool {
	if p.memory.session == p.session && p.memory.lost || p.next == "" && p.memory.session != p.session {
		return true // also if it has closed the session
	}
	lost := false
	for _, a := range p.log {
		switch {
		case a == sessionLostNotice:
			lost = true
		case a.session != "":
			lost = false
		}
	}
	return lost
}

// notice lets a process notice that its session is lost.
func (w *modelState) notice(i int) {
	p := *w.processes[i]
	w.processes[i] = &p
	if p.next != "" {
		p.log = append(slices.Clip(p.log), sessionLostNotice)
		return
	}
	e := &execution{w: w, p: &p}
	c := e.restore()
	e.session.lose()
	if c.grant != nil {
		c.grant.markLost()
	}
	p.memory = snapshotOf(c)
}

// hash returns the same value for states that differ only in the numbers of revisions, but not in their order.
func (w *modelState) hash() [16]byte {
	var b strings.Builder
	b.WriteString(describeEntries(w.store.entries))
	fmt.Fprintln(&b, sortedKeys(w.store.sessions), w.now.Unix(), w.members, w.reversed, w.removed, w.ticks)
	if w.scenario.preemptions {
		b.WriteString(w.running)
	}
	for _, late := range w.delayedCommits {
		fmt.Fprintln(&b, late.by.name, describeTransaction(late.transaction))
	}
	for _, p := range w.processes {
		p.describe(&b)
	}
	sum := sha256.Sum256(ranked(b.String()))
	return [16]byte(sum[:16])
}

// ranked replaces revisions by their rank.
func ranked(text string) []byte {
	type place struct {
		at       int
		revision int
	}
	var places []place
	var revisions []int
	for i := 0; i+7 <= len(text); i++ {
		if text[i] != '1' || text[i+1] != '0' || i > 0 && isDigit(text[i-1]) || i+7 < len(text) && isDigit(text[i+7]) {
			continue
		}
		if revision, err := strconv.Atoi(text[i : i+7]); err == nil {
			places, revisions = append(places, place{i, revision}), append(revisions, revision)
			i += 6
		}
	}
	slices.Sort(revisions)
	revisions = slices.Compact(revisions)
	out, last := make([]byte, 0, len(text)), 0
	for _, p := range places {
		rank, _ := slices.BinarySearch(revisions, p.revision)
		out = append(append(out, text[last:p.at]...), 'r')
		out, last = strconv.AppendInt(out, int64(rank), 10), p.at+7
	}
	return append(out, text[last:]...)
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
