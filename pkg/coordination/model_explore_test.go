package coordination

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenario is a model of some participants, with the faults that may happen. The test explores its states.
//
// Each participant runs the real Coordinator.Reconcile. Every call of the store (Read, Commit, Open, Close) and every call that
// changes the members (Execute, Fence) is a point at which the model can switch to another process or inject a fault. Calls that
// only read the members (Needs, Healthy, Replan) run together with the call before. The state of a process is its memory at the
// beginning of its Reconcile and the responses since then: to continue, Reconcile is run again with the same responses. Watches send
// no signals: the guards of the lock and the session notice nothing unless a transition says so.
//
// Two states are equal if they differ only in the numbers of revisions, but not in their order. There is one reduction: a process
// whose next commit is refused in any case continues at once. Without preemptions, all interleavings with at most faultsAtMost
// faults are explored; with preemptions, a switch during a Reconcile counts as a fault. The following transitions are possible at any
// time and do not count: the end of a restart, the expiry of a dead process's session, the start of a new process, and a delayed
// commit. Time passes only during actions; TestDecide and TestQuietWindow test the time before an action. States are explored by
// their number of faults, and then by their distance from the start, up to modelStates, with an equal share for each number of faults;
// the log has the number of states that were not explored.
//
// The model checks every start of a restart and every commit, and that from every state all needs can be fulfilled without another
// fault, with no entries left behind.
type scenario struct {
	participants []string
	members      []member
	policy       Policy
	action       Action // defaults to Restart
	otherAction  Action // what members also need that need the action, if it is set
	plan         func(ids []MemberID) []Step
	system       func(e *execution) System
	// faults are the possible faults, at most faultsAtMost in one path.
	faults       []string
	faultsAtMost int
	// preemptions is set if a switch to another process during a Reconcile counts as a fault.
	preemptions bool
	ticks       int
	// factor multiplies modelStates. It defaults to 1.
	factor        int
	maxOperations int
	// joined is set if all participants have joined before the first need.
	joined bool
	// declared is set if they have also declared their needs.
	declared bool
	// local is set if all participants are in local mode.
	local bool
	// update changes the settings of second processes, as a rolling update of an operator does.
	update func(*Settings)

	keys    keys
	metrics *metrics
}

func (s *scenario) has(fault string) bool { return slices.Contains(s.faults, fault) }

// settings returns the settings of a process.
func (s *scenario) settings(p *process) Settings {
	settings := Settings{Mode: Global, Prefix: s.participants[p.participant], Expected: s.participants, Policy: s.policy}
	switch {
	case s.local:
		return Settings{}
	case s.update != nil:
		settings.Expected = nil // expected participants may change
		if p.updated {
			s.update(&settings)
		}
	}
	return settings
}

// begin returns the initial state.
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

// stepUntil runs a process until a condition is met. Its Reconcile counts as ended then.
func (w *modelState) stepUntil(i int, met func(*process) bool) {
	for !met(w.processes[i]) {
		w.step(i, "")
	}
	p := *w.processes[i]
	p.log, p.next, p.nextCommit = nil, "", nil
	w.processes[i] = &p
}

// stateNode is an explored state.
type stateNode struct {
	world  *modelState // nil after its transitions were explored
	from   int
	action string
	faults int
	next   []int // by transitions without a fault
}

// exploration has all states that were found, those with the fewest faults first.
type exploration struct {
	states []stateNode
	known  map[[16]byte]int
	edges  int
}

// explore explores the states of a scenario, and fails the test at a violation.
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
		share := limit * (level + 1) / (s.faultsAtMost + 1) // otherwise the states without a fault might use up the limit
		for len(levels[level]) > 0 && len(x.states) < share {
			state := levels[level][0]
			levels[level] = levels[level][1:]
			w := x.states[state].world
			if w == nil {
				continue
			}
			if w.unfinished() == "" {
				goals = append(goals, state)
			}
			for _, a := range w.transitions() {
				if a.isFault && level == s.faultsAtMost {
					continue
				}
				x.edges++
				next := a.next()
				if next.violation != "" {
					t.Fatalf("%s, after %d states:\n%s", next.violation, len(x.states), x.trace(state, a.name))
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
					x.states = append(x.states, stateNode{world: next, from: state, action: a.name, faults: faults})
					levels[faults] = append(levels[faults], to)
				} else if x.states[to].faults > faults {
					x.states[to].faults, x.states[to].from, x.states[to].action = faults, state, a.name
					levels[faults] = append(levels[faults], to)
				}
				if !a.isFault && to != state {
					x.states[state].next = append(x.states[state].next, to)
				}
			}
			x.states[state].world = nil
		}
		t.Logf("%d faults: %d states, %d steps, %s", level, len(x.states), x.edges, time.Since(began).Round(time.Millisecond))
	}
	for i := range x.states {
		if x.states[i].world != nil {
			unseen = append(unseen, i)
		}
	}
	if len(unseen) > 0 {
		t.Logf("%d states were not explored further", len(unseen))
	}
	x.checkProgressPossible(t, s, goals, unseen)
	return x
}

// checkProgressPossible fails the test if the goal cannot be reached from a state without another fault.
func (x *exploration) checkProgressPossible(t *testing.T, s *scenario, goals, unseen []int) {
	t.Helper()
	before := make([][]int, len(x.states))
	for index, state := range x.states {
		for _, to := range state.next {
			before[to] = append(before[to], index)
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
		t.Fatalf("the goal cannot be reached: %s\n%s\n%s", w.unfinished(), describeEntries(w.store.entries), x.trace(stuck, ""))
	}
	t.Logf("%d goal states, at most %d steps away", len(goals), longest)
}

// path returns the transitions that led to a state.
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

// replay follows a path.
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
			t.Fatalf("transition %q, number %d, is not possible", name, i)
		}
		w = next
		if w.violation != "" {
			t.Fatalf("%s, after %s", w.violation, strings.Join(path[:i+1], "; "))
		}
	}
	return w
}

// modelMembers returns one member of each participant.
func modelMembers(participants ...string) (members []member) {
	for i, participant := range participants {
		members = append(members, member{id: MemberID(participant + "-1"), owner: i, wanted: 1})
	}
	return members
}

func sequentialSteps(ids []MemberID) (steps []Step) {
	for _, id := range ids {
		steps = append(steps, Step{Do: "restart", Members: []MemberID{id}, Order: true})
	}
	return steps
}

func togetherSteps(ids []MemberID) []Step {
	return []Step{{Do: "restart", Members: ids, Order: true, Together: true}}
}

func lockHolderSteps(ids []MemberID) (steps []Step) {
	for _, id := range ids {
		steps = append(steps, Step{Do: fmt.Sprint("restart ", id), Members: []MemberID{id}})
	}
	return steps
}
