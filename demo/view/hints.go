package view

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// connectionLines returns the URL of the websites and the command that prepares another terminal.
// They are never truncated, because users copy them.
func connectionLines(hints Hints, width int) []Line {
	if hints.Setup == "" {
		return nil
	}
	title, pages := Line{{"In another terminal", Bold}}, Line{{"  websites: " + hints.Pages, Accent}}
	lines := []Line{nil}
	switch {
	case hints.Pages == "":
		lines = append(lines, title)
	case title.width()+pages.width() <= width:
		lines = append(lines, append(title, pages...))
	default:
		lines = append(lines, title, pages)
	}
	return append(lines, command(hints.Setup, width)...)
}

// suggestionLines returns the suggested commands, each with its description if there is room beside
// it.
func suggestionLines(hints Hints, width int) []Line {
	var lines []Line
	for _, hint := range hints.Suggestions {
		lines = append(lines, suggestionLine(hint, width)...)
	}
	return lines
}

// suggestionLine returns the lines of one suggested command.
func suggestionLine(hint Suggestion, width int) []Line {
	const column, minDescription = 40, 12
	lines := command(hint.Command, width)
	last := lines[len(lines)-1]
	gap := max(0, column+2-last.width())
	if last.width()+gap+2+minDescription > width {
		return lines
	}
	lines[len(lines)-1] = append(last, Span{strings.Repeat(" ", gap), Plain}, Span{"  " + hint.Description, Dim})
	return lines
}

// command returns a command to copy. A long command is continued on the next line with a backslash.
func command(text string, width int) []Line {
	var lines []Line
	for _, line := range wrap(text, width-len(indent)) {
		for _, part := range breakLong(indent+line, width) {
			lines = append(lines, Line{{part, Plain}})
		}
	}
	return lines
}

const indent = "  "

// wrap breaks a shell command between its words, with a backslash at the end of each line.
func wrap(command string, width int) []string {
	const continuation = ` \`
	var lines []string
	line := ""
	for _, word := range words(command) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line+" "+word+continuation) <= width:
			line += " " + word
		default:
			lines = append(lines, line+continuation)
			line = indent + word
		}
	}
	lines = append(lines, line)
	// The last word needs no room for a backslash.
	if n := len(lines); n > 1 {
		joined := strings.TrimSuffix(lines[n-2], continuation) + " " + strings.TrimPrefix(lines[n-1], indent)
		if utf8.RuneCountInString(joined) <= width {
			lines = append(lines[:n-2], joined)
		}
	}
	return lines
}

// words splits a command at unquoted spaces.
func words(command string) []string {
	quoted := false
	return strings.FieldsFunc(command, func(r rune) bool {
		if r == '\'' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}

// breakLong breaks a word that is longer than a line. The rest starts in the first column, because
// leading spaces would become part of the word. Quoted words are not broken.
func breakLong(line string, width int) []string {
	var parts []string
	for runes := []rune(line); width > 1 && len(runes) > width && !strings.Contains(line, "'"); runes = []rune(line) {
		parts, line = append(parts, string(runes[:width-1])+`\`), string(runes[width-1:])
	}
	return append(parts, line)
}

// footer returns the result of the last command, and the keys.
func footer(state State, width int) []Line {
	message := Line{}
	if state.Message != "" {
		message = Line{{sanitize(state.Message), Accent}}
	}
	return []Line{message, keys(state, width)}
}

// key is a key with its description.
type key struct{ key, description string }

// keys returns the line of keys, with descriptions as far as there is room. It always has those for
// help and quit.
func keys(state State, width int) Line {
	end := []key{{"?", "help"}, {"q", "quit"}}
	all := []key{{"1-9", "select"}, {"k", "kill"}, {"s", "stop"}, {"p", "pause"}, {"r", "resume"}, {"+ -", "scale"}}
	return firstThatFits(width,
		slices.Concat(all, []key{{"w", "100 more " + state.Objects.Name + "s"}}, end),
		slices.Concat(all, []key{{"w", "more"}}, end),
		slices.Concat([]key{{"1-9 k s p r + - w", ""}}, end),
		end)
}

// firstThatFits returns the first of several lists of keys that fits, or the last.
func firstThatFits(width int, variants ...[]key) Line {
	var line Line
	for _, variant := range variants {
		line = Line{}
		for i, key := range variant {
			if i > 0 {
				line = append(line, Span{"  ", Plain})
			}
			line = append(line, Span{key.key, Bold})
			if key.description != "" {
				line = append(line, Span{" " + key.description, Dim})
			}
		}
		if line.width() <= width {
			break
		}
	}
	return line
}

// help returns the help screen.
func help(state State, width, height int) []Line {
	return helpScreen(header(state, width), state.Hints, width, height, [][]key{
		{{"1-9", "select an instance"}, {"k", "kill it"}, {"s", "stop it"}, {"p", "pause it"}, {"r", "resume it"}},
		{{"+ -", "scale"}, {"w", "100 more " + state.Objects.Name + "s"}, {"q", "stop everything"}},
	})
}

// helpScreen returns a help screen with hints and keys below the given lines.
func helpScreen(lines []Line, hints Hints, width, height int, rows [][]key) []Line {
	if commands := connectionLines(hints, width); len(commands) > 0 {
		lines = append(lines, commands[1:]...) // without the empty line
	}
	for _, hint := range hints.Suggestions {
		lines = append(lines, Line{{indent + "# " + hint.Description, Dim}})
		lines = append(lines, command(hint.Command, width)...)
	}
	lines = append(lines, nil, Line{{"Keys", Bold}})
	for _, keys := range rows {
		line := Line{{indent, Plain}}
		for _, key := range keys {
			line = append(line, Span{key.key, Bold}, Span{" " + key.description + "  ", Dim})
		}
		lines = append(lines, line)
	}
	const back = "press any key to return"
	if len(lines) >= height {
		return append(lines[:height-1], Line{{back + "; enlarge the terminal to see more", Accent}})
	}
	return append(fill(lines, height-1), Line{{back, Accent}})
}
