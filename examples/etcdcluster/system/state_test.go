package system_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
)

// parse reads members: a letter in capitals is healthy, with ' it is a learner, and the first one is the leader.
func parse(words string) *system.State {
	state := &system.State{Leader: 1}
	for i, word := range strings.Fields(words) {
		name, learner := strings.CutSuffix(word, "'")
		m := system.Member{ID: uint64(i + 1), Name: strings.ToLower(name), Learner: learner}
		if name == m.Name {
			m.Problem = "it does not answer"
		}
		state.Members = append(state.Members, m)
	}
	return state
}

func TestQuorum(t *testing.T) {
	type verdict struct {
		Has, Spares, Forever bool // the last two are about the last member
	}
	for words, want := range map[string]verdict{
		"A":         {true, false, false},
		"A B":       {true, false, true},
		"A B C":     {true, true, true},
		"A B c":     {true, true, true},
		"A b C":     {true, false, false},
		"A b c":     {false, false, false},
		"A B C D":   {true, true, true},
		"A b C D":   {true, false, true},
		"A b c D E": {true, false, false},
		"A B C d'":  {true, true, true},
		"A B C D'":  {true, true, true},
		"A b C'":    {false, false, false},
		"A B'":      {true, true, true},
	} {
		t.Run(words, func(t *testing.T) {
			state := parse(words)
			last := state.Members[len(state.Members)-1].ID
			got := verdict{state.HasQuorum(), state.Spares(last, false), state.Spares(last, true)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFind(t *testing.T) {
	state := parse("A B c'")
	state.Members[1].PeerURLs = []string{"http://127.0.0.1:1"}
	state.Members[2].Name = ""
	if m, found := state.Known("new", "http://127.0.0.1:1"); !found || m.Name != "b" {
		t.Errorf("found %t, %v", found, m)
	}
	if m, found := state.Known("", ""); found {
		t.Errorf("the empty name names no member: %v", m)
	}
	if m, found := state.Known("a", "http://127.0.0.1:1"); !found || m.Name != "a" {
		t.Errorf("found %t, %v", found, m)
	}
	if m, found := (*system.State)(nil).Known("a", ""); found {
		t.Errorf("nobody is known: %v", m)
	}
	if _, found := state.Member(4); found {
		t.Error("found a fourth member")
	}
}
