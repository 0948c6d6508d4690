package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// goes are the entries of a member that goes, and comes those of one that comes.
func goes(id string) coordination.Wants {
	return wants(coordination.PendingForExclusion, id, coordination.PendingForRemoval, id, coordination.ReadyForExclusion, id)
}

func and(all ...coordination.Wants) coordination.Wants {
	together := coordination.Wants{}
	for _, wants := range all {
		for set, members := range wants {
			for id, addresses := range members {
				together.Want(set, id, addresses...)
			}
		}
	}
	return together
}

func comes(id string) coordination.Wants {
	return wants(coordination.PendingForInclusion, id, coordination.ReadyForInclusion, id)
}

func TestExcludeBegins(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state    *system.State
		dc1, dc2 coordination.Wants
		told     string
		waits    string
	}{
		"nothing":   {three(), nil, nil, "done", ""},
		"one":       {three(), nil, goes("dc2-1"), "remove dc2-1, stop dc2-1", ""},
		"a leader":  {three(), goes("dc1-1"), nil, "move-leader dc2-1, remove dc1-1, stop dc1-1", ""},
		"with heir": {three(), nil, and(goes("dc2-1"), comes("dc2-2")), "add-learner dc2-2, start dc2-2, promote dc2-2, remove dc2-1, stop dc2-1", ""},
		"one that is not ready": {
			three(), nil, wants(coordination.PendingForExclusion, "dc2-1"), "done", "Exclusion waits for dc2-1: it is not ready",
		},
		"one that is needed": {
			agreed(member(1, "dc1-1"), member(2, "dc2-1"), sick(member(3, "dc3-1"))), nil, goes("dc2-1"), "done",
			"Exclusion waits: without dc2-1 the system has no quorum",
		},
		"a lost one goes first": {
			agreed(member(1, "dc1-1"), member(2, "dc2-1"), sick(member(3, "dc3-1"))), wants(coordination.PendingForRemoval, "dc3-1"), and(goes("dc2-1"), comes("dc2-2")), "done", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, test.state, "dc1", "dc2", "dc3")
			p.says("dc1", test.dc1)
			p.says("dc2", test.dc2)
			r := p.next("dc1", test.state)
			p.must(r.exclude(t.Context()))
			if got := p.told(); got != test.told {
				t.Errorf("%s, not %s", got, test.told)
			}
			if r.waiting != test.waits {
				t.Errorf("it waits for %q, not for %q", r.waiting, test.waits)
			}
		})
	}
}

func TestExcludeDoes(t *testing.T) {
	t.Parallel()
	four := agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"), member(4, "dc2-2"))
	leads := agreed(four.Members...)
	leads.Leader = 2
	for name, test := range map[string]struct {
		state *system.State
		fails error
		did   []string
		told  string
		waits string
	}{
		"it is there":            {four, nil, []string{"remove 2"}, "remove dc2-1, stop dc2-1", "dc2-1 has to be forgotten by the system"},
		"it is gone":             {agreed(member(1, "dc1-1"), member(3, "dc3-1"), member(4, "dc2-2")), nil, nil, "stop dc2-1", ""},
		"it leads":               {leads, nil, nil, "remove dc2-1, stop dc2-1", "dc2-1 leads"},
		"the system refuses now": {four, system.ErrNotNow, []string{"remove 2"}, "remove dc2-1, stop dc2-1", system.ErrNotNow.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, test.state, "dc1", "dc2", "dc3")
			p.says("dc2", goes("dc2-1"))
			p.acts("dc1", coordination.Exclusion, coordination.Step{Do: plan.Remove, Member: "dc2-1"}, order(plan.Stop, "dc2-1"))
			r := p.next("dc1", test.state)
			r.system.(*fakeSystem).fails = test.fails
			p.must(r.exclude(t.Context()))
			if diff := cmp.Diff(test.did, r.system.(*fakeSystem).made); diff != "" {
				t.Error(diff)
			}
			if got := p.told(); got != test.told {
				t.Errorf("%s, not %s", got, test.told)
			}
			if r.waiting != test.waits {
				t.Errorf("it waits for %q, not for %q", r.waiting, test.waits)
			}
		})
	}
}
