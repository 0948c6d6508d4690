package view

import "github.com/ringmaster-project/ringmaster/demo/control"

// ring is the show of a ring.
type ring struct{ Source }

// state is the source's, with what the person has chosen.
func (r ring) state(chosen chosen) State {
	state := r.State()
	for _, instance := range state.Instances {
		if instance.Name == chosen.selected {
			state.Selected = chosen.selected
		}
	}
	if state.Selected == "" && len(state.Instances) > 0 {
		state.Selected = state.Instances[0].Name
	}
	state.Answer, state.Help = chosen.answer, chosen.help
	return state
}

func (r ring) frame(chosen chosen, width, height int) []Line {
	return Frame(r.state(chosen), width, height)
}

func (r ring) press(chosen chosen, key byte) pressed { return press(r.state(chosen), key) }

// press says what a key means at the moment.
func press(state State, key byte) pressed {
	wanted := 0
	for _, instance := range state.Instances {
		if !instance.Dismissed {
			wanted++
		}
	}
	switch key {
	case '+', '=': // which is + without shift
		return pressed{request: &control.Request{Command: control.Scale, Count: wanted + 1}}
	case '-':
		return pressed{request: &control.Request{Command: control.Scale, Count: max(0, wanted-1)}}
	case 'w':
		return pressed{request: &control.Request{Command: control.Websites, Count: state.Objects.Total + 100}}
	}
	var names []string
	for _, instance := range state.Instances {
		names = append(names, instance.Name)
	}
	return pressEverywhere(key, state.Selected, names)
}

// pressEverywhere says what a key means that means the same in every show: with these names to choose from.
func pressEverywhere(key byte, selected string, names []string) pressed {
	about := func(command string) pressed {
		if selected == "" {
			return pressed{}
		}
		return pressed{request: &control.Request{Command: command, Name: selected, Away: Away}}
	}
	switch key {
	case 'q', ctrlC, ctrlD:
		return pressed{quit: true}
	case '?', 'h':
		return pressed{help: true}
	case 'k':
		return about(control.Kill)
	case 's':
		return about(control.Stop)
	case 'p':
		return about(control.Pause)
	case 'r':
		return about(control.Resume)
	}
	if n := int(key) - '1'; n >= 0 && n < len(names) && key <= '9' {
		return pressed{selected: names[n]}
	}
	return pressed{}
}
