package view

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// reach is where to look at the objects, and what makes commands work in another terminal. Neither is ever cut:
// both are to be copied.
func reach(hints Hints, width int) []Line {
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

// tries are things to try, each with what it shows if there is room for that beside it.
func tries(hints Hints, width int) []Line {
	var lines []Line
	for _, hint := range hints.Try {
		lines = append(lines, try(hint, width)...)
	}
	return lines
}

// try is a thing to try.
func try(hint Try, width int) []Line {
	const column, least = 40, 12 // a longer command goes on where there is room
	lines := command(hint.Command, width)
	last := lines[len(lines)-1]
	gap := max(0, column+2-last.width())
	if last.width()+gap+2+least > width {
		return lines
	}
	lines[len(lines)-1] = append(last, Span{strings.Repeat(" ", gap), Plain}, Span{"  " + hint.Shows, Dim})
	return lines
}

// command is something to copy. What does not fit goes on in the next line, as a shell takes it.
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

// wrap breaks a shell's command between its words, with what makes the shell go on.
func wrap(command string, width int) []string {
	const more = ` \`
	var lines []string
	line := ""
	for _, word := range words(command) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line+" "+word+more) <= width:
			line += " " + word
		default:
			lines = append(lines, line+more)
			line = indent + word
		}
	}
	lines = append(lines, line)
	// The last word needs no room for what makes the shell go on.
	if n := len(lines); n > 1 {
		whole := strings.TrimSuffix(lines[n-2], more) + " " + strings.TrimPrefix(lines[n-1], indent)
		if utf8.RuneCountInString(whole) <= width {
			lines = append(lines[:n-2], whole)
		}
	}
	return lines
}

// words splits a command where it has spaces that are not quoted.
func words(command string) []string {
	quoted := false
	return strings.FieldsFunc(command, func(r rune) bool {
		if r == '\'' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}

// breakLong breaks a line with a word that is too long for it. The rest begins at the very left, because a space
// would be part of it. What is quoted cannot be broken.
func breakLong(line string, width int) []string {
	var parts []string
	for runes := []rune(line); width > 1 && len(runes) > width && !strings.Contains(line, "'"); runes = []rune(line) {
		parts, line = append(parts, string(runes[:width-1])+`\`), string(runes[width-1:])
	}
	return append(parts, line)
}

// footer is what came of the last key, and which keys there are.
func footer(state State, width int) []Line {
	answer := Line{}
	if state.Answer != "" {
		answer = Line{{clean(state.Answer), Accent}}
	}
	return []Line{answer, keys(state, width)}
}

// key is a key of the keyboard, and what it does.
type key struct{ key, does string }

// keys are the keys in as many words as there is room for. How to get help and out is always among them.
func keys(state State, width int) Line {
	end := []key{{"?", "help"}, {"q", "quit"}}
	all := []key{{"1-9", "select"}, {"k", "kill"}, {"s", "stop"}, {"p", "pause"}, {"r", "resume"}, {"+ -", "scale"}}
	return fitting(width,
		slices.Concat(all, []key{{"w", "100 more " + state.Objects.Name + "s"}}, end),
		slices.Concat(all, []key{{"w", "more"}}, end),
		slices.Concat([]key{{"1-9 k s p r + - w", ""}}, end),
		end)
}

// fitting is the first of several lists of keys that there is room for, or the last.
func fitting(width int, variants ...[]key) Line {
	var line Line
	for _, variant := range variants {
		line = Line{}
		for i, key := range variant {
			if i > 0 {
				line = append(line, Span{"  ", Plain})
			}
			line = append(line, Span{key.key, Bold})
			if key.does != "" {
				line = append(line, Span{" " + key.does, Dim})
			}
		}
		if line.width() <= width {
			break
		}
	}
	return line
}

// help is everything that can be typed, here and elsewhere.
func help(state State, width, height int) []Line {
	return typed(header(state, width), state.Hints, width, height, [][]key{
		{{"1-9", "select an instance"}, {"k", "kill it"}, {"s", "stop it"}, {"p", "pause it"}, {"r", "resume it"}},
		{{"+ -", "scale"}, {"w", "100 more " + state.Objects.Name + "s"}, {"q", "stop everything"}},
	})
}

// typed are hints and keys below some lines.
func typed(lines []Line, hints Hints, width, height int, rows [][]key) []Line {
	if commands := reach(hints, width); len(commands) > 0 {
		lines = append(lines, commands[1:]...) // without the gap
	}
	for _, hint := range hints.Try {
		lines = append(lines, Line{{indent + "# " + hint.Shows, Dim}})
		lines = append(lines, command(hint.Command, width)...)
	}
	lines = append(lines, nil, Line{{"Keys", Bold}})
	for _, keys := range rows {
		line := Line{{indent, Plain}}
		for _, key := range keys {
			line = append(line, Span{key.key, Bold}, Span{" " + key.does + "  ", Dim})
		}
		lines = append(lines, line)
	}
	const back = "any key goes back"
	if len(lines) >= height {
		return append(lines[:height-1], Line{{back + "; make the terminal higher to see more", Accent}})
	}
	return append(fill(lines, height-1), Line{{back, Accent}})
}
