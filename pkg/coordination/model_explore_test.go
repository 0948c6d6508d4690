package coordination

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenario is a plan for some participants, with the faults that may happen.
//
// Each participant runs the real Coordinator.Reconcile. Every call of the store (Read, Commit, Open, Close) and every call that
// changes the members (Execute, Fence) is a point at which any other process may go on, and at which any fault may happen. What
// only looks at the members (Needs, Healthy, Replan) happens together with the call before it. A process is its memory at the
// beginning of its Reconcile and the answers that it was given since: it goes on by running Reconcile again from there. Nothing
// tells a process of what it does not ask for: the guards of its lock and its session see nothing until the model says so.
//
// Two states are the same if they differ only in revisions that keep their order. One reduction is made: a process whose next
// commit is refused whatever happens goes on at once. Without preemptions, all interleavings with at most faultsAtMost faults
// are looked at; with it, a switch to another process in the middle of a Reconcile counts as a fault. Modelled beyond that are: the
// end of restarts, the expiry of sessions whose process has died, the start of a new process, and commits that are done
// late; they happen at any time and cost nothing. Time passes only while something is done: how long nothing has changed before an
// action begins is for TestDecide and its relatives. States are looked at by the number of their faults, and within it by
// their distance from the start, up to modelStates, each number of faults with an equal share; the log says what was not reached.
//
// Judged are every start of a restart, every commit, and at the end that from every state all that was asked for can
// be finished without another fault, and nothing is left behind.
type scenario struct {
	participants []string
	members      []member
	policy       Policy
	action       Action // Restart if it is not set
	otherAction  Action // what members also need that need the action, if it is set
	plan         func(ids []MemberID) []Step
	system       func(e *execution) System
	// faults may happen, faultsAtMost of them in one path.
	faults       []string
	faultsAtMost int
	// preemptions is set if it counts as a fault that a process goes on in the middle of another one's Reconcile.
	preemptions bool
	ticks       int
	// factor is how many times modelStates are looked at, once if it is not set.
	factor        int
	maxOperations int
	// joined is set if all participants have joined before anybody needs anything.
	joined bool
	// declared is set if they have also said what they need.
	declared bool
	// local is set if no participant tells the others anything.
	local bool
	// update changes the settings of the processes that are started beside others, as a rolling update of an operator does.
	update func(*Settings)

	keys    keys
	metrics *metrics
}

func (s *scenario) has(fault string) bool { return slices.Contains(s.faults, fault) }

// settings are those of a process.
func (s *scenario) settings(p *process) Settings {
	settings := Settings{Mode: Global, Prefix: s.participants[p.participant], Expected: s.participants, Policy: s.policy}
	switch {
	case s.local:
		return Settings{}
	case s.update != nil:
		settings.Expected = nil // those that were expected may go
		if p.updated {
			s.update(&settings)
		}
	}
	return settings
}

// begin is the world before anything has happened.
func (s *scenario) begin() *modelState {
	s.keys, s.metrics = newKeys(DefaultRoot, modelSystemName), newMetrics(modelSystemName, "model")
	if s.action == "" {
		s.action = Restart
	}
	if s.maxOperations == 0 {
		s.maxOperations = maxOperations
	}
	if s.system == nil {
		s.system = func(e *execution) System { return modelSystem{e} }
	}
	w := &modelState{scenario: s, store: newContent(), now: time.Unix(0, 0), members: slices.Clone(s.members)}
	for i := range s.participants {
		w.start(i)
	}
	if s.joined || s.declared {
		for i := range w.members {
			w.members[i].wanted--
		}
		for i := range w.processes {
			w.stepUntil(i, func(p *process) bool { return p.memory.registered.written })
		}
		for i := range w.members {
			w.members[i].wanted++
		}
	}
	if s.declared {
		for i, p := range w.processes {
			path := s.keys.ofSet(ReadyForRestart, s.participants[p.participant])
			w.stepUntil(i, func(*process) bool { return len(w.store.read(path).Entries) > 0 })
		}
	}
	return w
}

// stepUntil lets calls of a process through until a condition is met. Its Reconcile counts as ended then.
func (w *modelState) stepUntil(i int, met func(*process) bool) {
	for !met(w.processes[i]) {
		w.step(i, "")
	}
	p := *w.processes[i]
	p.log, p.next, p.nextCommit = nil, "", nil
	w.processes[i] = &p
}

// stateNode is a world that was found.
type stateNode struct {
	world  *modelState // until all that can happen in it was looked at
	from   int
	action string
	faults int
	next   []int // without a fault
}

// exploration finds all worlds, those with the fewest faults first.
type exploration struct {
	states []stateNode
	known  map[[16]byte]int
	edges  int
}

// explore looks at all that can happen, and fails the test at what must not.
func explore(t *testing.T, s *scenario, limit int) *exploration {
	t.Helper()
	began := time.Now()
	x := &exploration{known: map[[16]byte]int{}}
	levels := make([][]int, s.faultsAtMost+2)
	first := s.begin()
	x.states, x.known[first.hash()] = []stateNode{{world: first, from: -1}}, 0
	levels[0] = []int{0}
	var goals, unseen []int
	for level := 0; level <= s.faultsAtMost; level++ {
		share := limit * (level + 1) / (s.faultsAtMost + 1) // so that those without a fault, of which there may be very many, are not all
		for len(levels[level]) > 0 && len(x.states) < share {
			at := levels[level][0]
			levels[level] = levels[level][1:]
			w := x.states[at].world
			if w == nil {
				continue
			}
			if w.unfinished() == "" {
				goals = append(goals, at)
			}
			for _, a := range w.transitions() {
				if a.isFault && level == s.faultsAtMost {
					continue
				}
				x.edges++
				next := a.next()
				if next.violation != "" {
					t.Fatalf("%s, after %d states:\n%s", next.violation, len(x.states), x.trace(at, a.name))
				}
				h := next.hash()
				faults := level
				if a.isFault {
					faults++
				}
				to, known := x.known[h]
				if !known {
					to = len(x.states)
					x.known[h] = to
					x.states = append(x.states, stateNode{world: next, from: at, action: a.name, faults: faults})
					levels[faults] = append(levels[faults], to)
				} else if x.states[to].faults > faults {
					x.states[to].faults, x.states[to].from, x.states[to].action = faults, at, a.name
					levels[faults] = append(levels[faults], to)
				}
				if !a.isFault && to != at {
					x.states[at].next = append(x.states[at].next, to)
				}
			}
			x.states[at].world = nil
		}
		t.Logf("%d faults: %d states, %d steps, %s", level, len(x.states), x.edges, time.Since(began).Round(time.Millisecond))
	}
	for at := range x.states {
		if x.states[at].world != nil {
			unseen = append(unseen, at)
		}
	}
	if len(unseen) > 0 {
		t.Logf("what follows from %d states was not looked at", len(unseen))
	}
	x.checkProgressPossible(t, s, goals, unseen)
	return x
}

// checkProgressPossible fails the test if there is a state from which the goal cannot be reached without another fault.
func (x *exploration) checkProgressPossible(t *testing.T, s *scenario, goals, unseen []int) {
	t.Helper()
	before := make([][]int, len(x.states))
	for at, state := range x.states {
		for _, to := range state.next {
			before[to] = append(before[to], at)
		}
	}
	distance := make([]int, len(x.states))
	for i := range distance {
		distance[i] = -1
	}
	queue, longest := slices.Concat(goals, unseen), 0
	for _, goal := range queue {
		distance[goal] = 0
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, at := range before[queue[0]] {
			if distance[at] < 0 {
				distance[at] = distance[queue[0]] + 1
				longest = max(longest, distance[at])
				queue = append(queue, at)
			}
		}
	}
	if stuck := slices.Index(distance, -1); stuck >= 0 {
		w := replay(t, s, x.path(stuck))
		t.Fatalf("it never ends: %s\n%s\n%s", w.unfinished(), describeEntries(w.store.entries), x.trace(stuck, ""))
	}
	t.Logf("%d states in which all is done, at most %d steps away", len(goals), longest)
}

// path are the actions that led to a state.
func (x *exploration) path(at int) (path []string) {
	for ; at > 0; at = x.states[at].from {
		path = append(path, x.states[at].action)
	}
	slices.Reverse(path)
	return path
}

func (x *exploration) trace(at int, last string) string {
	path := x.path(at)
	if last != "" {
		path = append(path, last)
	}
	return strings.Join(path, "; ")
}

// replay does what a path says.
func replay(t *testing.T, s *scenario, path []string) *modelState {
	t.Helper()
	w := s.begin()
	for i, name := range path {
		next := (*modelState)(nil)
		for _, a := range w.transitions() {
			if a.name == name {
				next = a.next()
				break
			}
		}
		if next == nil {
			t.Fatalf("%q, number %d, cannot happen", name, i)
		}
		w = next
		if w.violation != "" {
			t.Fatalf("%s, after %s", w.violation, strings.Join(path[:i+1], "; "))
		}
	}
	return w
}

// modelMembers are one of each participant.
func modelMembers(participants ...string) (members []member) {
	for i, participant := range participants {
		members = append(members, member{id: MemberID(participant + "-1"), owner: i, wanted: 1})
	}
	return members
}

func oneAfterAnother(ids []MemberID) (steps []Step) {
	for _, id := range ids {
		steps = append(steps, Step{Do: "restart", Members: []MemberID{id}, Order: true})
	}
	return steps
}

func allTogether(ids []MemberID) []Step {
	return []Step{{Do: "restart", Members: ids, Order: true, Together: true}}
}

func byLockHolder(ids []MemberID) (steps []Step) {
	for _, id := range ids {
		steps = append(steps, Step{Do: fmt.Sprint("restart ", id), Members: []MemberID{id}})
	}
	return steps
}
