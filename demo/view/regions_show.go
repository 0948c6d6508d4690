package view

import (
	"slices"

	"github.com/ringmaster-project/ringmaster/demo/control"
)

// RegionsSource is where states of regions come from.
type RegionsSource interface {
	// State is how everything is now.
	State() Regions
	// Changed is told when there is something new. It is told again, and need not be heard each time.
	Changed() <-chan struct{}
}

// regions is the show of regions.
type regions struct{ RegionsSource }

// state is the source's, with what the person has chosen.
func (r regions) state(chosen chosen) Regions {
	state := r.State()
	names := state.processes()
	if slices.Contains(names, chosen.selected) {
		state.Selected = chosen.selected
	} else if len(names) > 0 {
		state.Selected = names[0]
	}
	state.Answer, state.Help = chosen.answer, chosen.help
	return state
}

func (r regions) frame(chosen chosen, width, height int) []Line {
	return FrameRegions(r.state(chosen), width, height)
}

// press says what a key means at the moment.
func (r regions) press(chosen chosen, key byte) pressed {
	switch key {
	case 'a':
		return pressed{request: &control.Request{Command: control.Restart}}
	case 'm':
		return pressed{request: &control.Request{Command: control.Replace}}
	}
	state := r.state(chosen)
	return pressEverywhere(key, state.Selected, state.processes())
}

// processes are the names of what keys can be about: the operators, and then the agents.
func (s *Regions) processes() []string {
	var operators, agents []string
	for _, region := range s.Regions {
		operators, agents = append(operators, region.Operator.Name), append(agents, region.Agent.Name)
	}
	return append(operators, agents...)
}

// Settled tells whether all regions have what they should have.
func (s Regions) Settled() bool {
	return len(s.Regions) > 0 && !slices.ContainsFunc(s.Regions, func(r Region) bool { return !r.Settled })
}

// votes counts the members that are well and vote, and those that are wanted.
func (s *Regions) votes() (ready, wanted int) {
	for _, region := range s.Regions {
		ready, wanted = ready+region.Ready, wanted+region.Wanted
	}
	return ready, wanted
}

// leader is the member that leads, or nobody.
func (s *Regions) leader() string {
	for _, region := range s.Regions {
		for _, member := range region.Members {
			if member.Leader {
				return member.ID
			}
		}
	}
	return ""
}
