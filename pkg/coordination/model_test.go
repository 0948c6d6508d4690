package coordination

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func modelScenarios() map[string]scenario {
	two, three := []string{"a", "b"}, []string{"a", "b", "c"}
	ofTwo, ofThree := modelMembers(two...), modelMembers(three...)
	seen := modelMembers(two...)
	seen[0].seen = 5
	several := append(modelMembers(two...), member{id: "b-2", owner: 1, wanted: 1})
	fencing := func(e *execution) System { return fencingSystem{modelSystem{e}} }
	prefix, mode := func(s *Settings) { s.Prefix += "-new" }, func(s *Settings) { *s = Settings{} }
	replanning := func(e *execution) System { return replanningSystem{modelSystem{e}} }
	return map[string]scenario{
		"every interleaving":                       {participants: two, members: ofTwo, plan: sequentialSteps, declared: true},
		"joining":                                  {participants: two, members: ofTwo, plan: sequentialSteps},
		"declaring":                                {participants: two, members: ofTwo, plan: sequentialSteps, joined: true, preemptions: true, faultsAtMost: 1},
		"declaring in parts":                       {participants: two, members: ofTwo, plan: sequentialSteps, otherAction: "Upgrade", joined: true, maxOperations: 1, preemptions: true, faultsAtMost: 2},
		"in turn, commits fail":                    {participants: two, members: ofTwo, plan: sequentialSteps, declared: true, preemptions: true, faults: []string{refused, unanswered, delayed}, faultsAtMost: 1},
		"in turn, processes die":                   {participants: two, members: ofTwo, plan: sequentialSteps, declared: true, preemptions: true, faults: []string{crash, hang}, faultsAtMost: 1},
		"together":                                 {participants: two, members: ofTwo, plan: togetherSteps, declared: true, preemptions: true, faults: []string{refused, unanswered, crash, hang}, faultsAtMost: 1},
		"by the holder":                            {participants: two, members: ofTwo, plan: lockHolderSteps, declared: true, preemptions: true, faults: []string{unanswered, crash, hang}, faultsAtMost: 1},
		"two processes of a participant":           {participants: two, members: ofTwo, plan: sequentialSteps, declared: true, preemptions: true, faults: []string{second}, faultsAtMost: 1, factor: 5},
		"a rolling update changes the prefix":      {participants: two, members: ofTwo, plan: sequentialSteps, declared: true, preemptions: true, faults: []string{second}, faultsAtMost: 2, update: prefix, factor: 5},
		"a rolling update changes the mode":        {participants: two, members: ofTwo, plan: sequentialSteps, declared: true, preemptions: true, faults: []string{second}, faultsAtMost: 2, update: mode, factor: 5},
		"in local mode":                            {participants: two, members: ofTwo, plan: sequentialSteps, local: true, preemptions: true, faults: []string{refused, unanswered}, faultsAtMost: 2},
		"needs change":                             {participants: two, members: ofTwo, plan: sequentialSteps, declared: true, preemptions: true, faults: []string{withdraw, again}, faultsAtMost: 2},
		"a registration is removed":                {participants: two, members: ofTwo, plan: sequentialSteps, declared: true, preemptions: true, faults: []string{remove}, faultsAtMost: 1},
		"a token from before":                      {participants: two, members: seen, plan: sequentialSteps, declared: true, preemptions: true, faults: []string{unanswered}, faultsAtMost: 1},
		"Replan changes its mind":                  {participants: two, members: several, plan: sequentialSteps, system: replanning, declared: true, preemptions: true, faults: []string{unanswered, delayed, reverse}, faultsAtMost: 1, factor: 5},
		"a step fails, and the others go on":       {participants: two, members: ofTwo, plan: sequentialSteps, declared: true, preemptions: true, policy: Policy{Failing: Continue}, faults: []string{failingDatabase}, faultsAtMost: 1},
		"a step fails":                             {participants: two, members: ofTwo, plan: sequentialSteps, declared: true, preemptions: true, faults: []string{failingDatabase}, faultsAtMost: 1},
		"those that are gone are left out":         {participants: two, members: ofTwo, plan: sequentialSteps, declared: true, preemptions: true, policy: Policy{Missing: LeaveOut}, faults: []string{crash, hang}, faultsAtMost: 1},
		"those that are gone are fenced":           {participants: two, members: ofTwo, plan: sequentialSteps, system: fencing, declared: true, preemptions: true, policy: Policy{Missing: LeaveOut}, faults: []string{crash, hang}, faultsAtMost: 1},
		"those that are slow are fenced":           {participants: two, members: ofTwo, plan: sequentialSteps, system: fencing, declared: true, preemptions: true, policy: Policy{Missing: GoOn, After: time.Minute}, ticks: 1, faultsAtMost: 1, factor: 5},
		"together, those that are slow are fenced": {participants: two, members: ofTwo, plan: togetherSteps, system: fencing, declared: true, preemptions: true, policy: Policy{Missing: GoOn, After: time.Minute}, ticks: 1, faultsAtMost: 1},
		"three, in turn":                           {participants: three, members: ofThree, plan: sequentialSteps, declared: true, preemptions: true, faults: []string{crash}, faultsAtMost: 1},
		"three, together":                          {participants: three, members: ofThree, plan: togetherSteps, declared: true, preemptions: true, faultsAtMost: 1},
	}
}

// TestModel explores the states of several participants that run the real Reconcile. The comment of scenario says what is bounded.
func TestModel(t *testing.T) {
	t.Parallel()
	for name, s := range modelScenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explore(t, &s, max(s.factor, 1)*modelStates)
		})
	}
}

// TestCounterexamplesOfModel replays violations that TestModel has found, and then lets all processes continue.
func TestCounterexamplesOfModel(t *testing.T) {
	t.Parallel()
	all := modelScenarios()
	for name, test := range map[string]struct{ scenario, path string }{
		"a member that is done is not ordered again after another one has failed": {"a step fails", "b2 x3; a1 x4; restarted a-1; a1 x2; b2 x4; b2 broken; b2 x11; a1 x5"},
		"a fenced member whose restart had ended is not ordered again":            {"those that are slow are fenced", "b2 x3; a1 x4; time; b2 x3; restarted a-1; b2 x6; restarted b-1"},
		"what is done together is not given up while another member is restarted": {"together, those that are slow are fenced", "b2 x3; a1 x3; b2 x5; time; b2 x5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := all[test.scenario]
			w := replay(t, &s, split(test.path))
			for range 100 { // all processes continue
				for i := range w.processes {
					w.step(i, "")
				}
				for i := range w.members {
					w.finish(i)
				}
				if w.violation != "" {
					t.Fatal(w.violation)
				}
			}
			if left := w.unfinished(); left != "" {
				t.Fatal(left)
			}
		})
	}
}

// split returns the steps of a path: "b2 x3" is b2 three times.
func split(path string) (all []string) {
	for step := range strings.SplitSeq(path, ";") {
		name, times, repeated := strings.Cut(strings.TrimSpace(step), " x")
		count := 1
		if repeated {
			count, _ = strconv.Atoi(times)
		}
		for range count {
			all = append(all, name)
		}
	}
	return all
}
