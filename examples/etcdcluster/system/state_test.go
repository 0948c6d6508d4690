package system_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
)

// parse reads members: a letter in capitals is healthy, with ' it is a learner, and the first one leads.
func parse(words string) *system.State {
	state := &system.State{Agreed: true, Leader: 1}
	for i, word := range strings.Fields(words) {
		name, learner := strings.CutSuffix(word, "'")
		m := system.Member{ID: system.ID(i + 1), Name: strings.ToLower(name), Learner: learner}
		if name != m.Name {
			m.Health = system.Health{Reachable: true, Leader: 1}
		}
		state.Members = append(state.Members, m)
	}
	return state
}

func TestQuorum(t *testing.T) {
	type verdict struct {
		Quorum                          int
		Has, Spares, Forever, IsSettled bool // the last two questions are about the last member
	}
	for words, want := range map[string]verdict{
		"A":         {1, true, false, false, true},
		"A B":       {2, true, false, true, true},
		"A B C":     {2, true, true, true, true},
		"A B c":     {2, true, true, true, false},
		"A b C":     {2, true, false, false, false},
		"A b c":     {2, false, false, false, false},
		"A B C D":   {3, true, true, true, true},
		"A b C D":   {3, true, false, true, false},
		"A b c D E": {3, true, false, false, false},
		"A B C d'":  {2, true, true, true, false},
		"A B C D'":  {2, true, true, true, false},
		"A b C'":    {2, false, false, false, false},
		"A B'":      {1, true, true, true, false},
	} {
		t.Run(words, func(t *testing.T) {
			state := parse(words)
			last := state.Members[len(state.Members)-1].ID
			got := verdict{state.Quorum(), state.HasQuorum(), state.Spares(last), state.SparesForever(last), state.Settled()}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			state.Agreed = false
			if state.HasQuorum() || state.Spares(last) || state.SparesForever(last) || state.Settled() {
				t.Error("what nobody agrees on is nothing to rely on")
			}
		})
	}
}

func TestCaughtUp(t *testing.T) {
	for lag, want := range map[uint64]bool{0: true, 1000: true, 1001: false} {
		m := system.Member{Health: system.Health{Lag: lag}}
		if m.CaughtUp() != want {
			t.Errorf("%d entries behind: caught up %t", lag, m.CaughtUp())
		}
	}
}

func TestFind(t *testing.T) {
	state := parse("A B c'")
	state.Members[1].PeerURLs = []string{"http://127.0.0.1:1"}
	state.Members[2].Name = ""
	if m, found := state.At("http://127.0.0.1:1"); !found || m.Name != "b" {
		t.Errorf("found %t, %v", found, m)
	}
	if m, found := state.Named(""); found {
		t.Errorf("a member without a name is nobody's: %v", m)
	}
	if _, found := state.Member(4); found {
		t.Error("there is no fourth")
	}
}

func TestID(t *testing.T) {
	const text = "8e9e05c52164694d"
	id, err := system.ParseID(text)
	if err != nil || id.String() != text {
		t.Errorf("got %s, %v", id, err)
	}
	if _, err := system.ParseID("someone"); err == nil {
		t.Error("that is no ID")
	}
}
