package view

import (
	"slices"

	"github.com/ringmaster-project/ringmaster/demo/control"
)

// RegionsSource provides the states of an etcd cluster in several regions.
type RegionsSource interface {
	// State returns the current state.
	State() Regions
	// Changed receives a value after the state has changed. Several changes may be one
	// notification.
	Changed() <-chan struct{}
}

// regionsContent shows an etcd cluster in several regions.
type regionsContent struct{ RegionsSource }

// state returns the state of the source with what the user has selected.
func (r regionsContent) state(user userState) Regions {
	state := r.State()
	names := state.processes()
	if slices.Contains(names, user.selected) {
		state.Selected = user.selected
	} else if len(names) > 0 {
		state.Selected = names[0]
	}
	state.Message, state.Help = user.message, user.help
	return state
}

func (r regionsContent) frame(user userState, width, height int) []Line {
	return FrameRegions(r.state(user), width, height)
}

func (r regionsContent) keyAction(user userState, key byte) keyAction {
	switch key {
	case 'a':
		return keyAction{request: &control.Request{Command: control.Restart}}
	case 'm':
		return keyAction{request: &control.Request{Command: control.Replace}}
	}
	state := r.state(user)
	return commonKeyAction(key, state.Selected, state.processes())
}

// processes returns the names of the operators, followed by those of the agents.
func (s *Regions) processes() []string {
	var operators, agents []string
	for _, region := range s.Regions {
		operators, agents = append(operators, region.Operator.Name), append(agents, region.Agent.Name)
	}
	return append(operators, agents...)
}
