package view

import "github.com/ringmaster-project/ringmaster/demo/control"

// ringContent shows a ring.
type ringContent struct{ Source }

// state returns the state of the source with what the user has selected.
func (r ringContent) state(user userState) State {
	state := r.State()
	for _, instance := range state.Instances {
		if instance.Name == user.selected {
			state.Selected = user.selected
		}
	}
	if state.Selected == "" && len(state.Instances) > 0 {
		state.Selected = state.Instances[0].Name
	}
	state.Message, state.Help = user.message, user.help
	return state
}

func (r ringContent) frame(user userState, width, height int) []Line {
	return Frame(r.state(user), width, height)
}

func (r ringContent) keyAction(user userState, key byte) keyAction {
	state := r.state(user)
	instances := 0
	for _, instance := range state.Instances {
		if !instance.Removing {
			instances++
		}
	}
	switch key {
	case '+', '=': // the same key without shift
		return keyAction{request: &control.Request{Command: control.Scale, Count: instances + 1}}
	case '-':
		return keyAction{request: &control.Request{Command: control.Scale, Count: max(0, instances-1)}}
	case 'w':
		return keyAction{request: &control.Request{Command: control.Websites, Count: state.Objects.Total + 100}}
	}
	var names []string
	for _, instance := range state.Instances {
		names = append(names, instance.Name)
	}
	return commonKeyAction(key, state.Selected, names)
}

// commonKeyAction returns the meaning of the keys that all views share. Digits select one of the
// names.
func commonKeyAction(key byte, selected string, names []string) keyAction {
	command := func(name string) keyAction {
		if selected == "" {
			return keyAction{}
		}
		return keyAction{request: &control.Request{Command: name, Name: selected, Away: Away}}
	}
	switch key {
	case 'q', ctrlC, ctrlD:
		return keyAction{quit: true}
	case '?', 'h':
		return keyAction{help: true}
	case 'k':
		return command(control.Kill)
	case 's':
		return command(control.Stop)
	case 'p':
		return command(control.Pause)
	case 'r':
		return command(control.Resume)
	}
	if n := int(key) - '1'; n >= 0 && n < len(names) && key <= '9' {
		return keyAction{selected: names[n]}
	}
	return keyAction{}
}
