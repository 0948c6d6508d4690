// Package terminal writes for people: tables whose columns are in line, in colour where a terminal
// shows it. In a pipe the same is plain text.
package terminal

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Colour says what a text means, not how it looks.
type Colour int

// The colours.
const (
	Plain Colour = iota
	// Good, Doubtful and Bad are how something is doing.
	Good
	Doubtful
	Bad
	// Faint is for what matters less, Strong for what is looked for first.
	Faint
	Strong
)

// codes are the terminal's own colours, so that they suit its background.
var codes = map[Colour]string{Good: "\x1b[32m", Doubtful: "\x1b[33m", Bad: "\x1b[31m", Faint: "\x1b[2m", Strong: "\x1b[1m"}

const reset = "\x1b[0m"

// Paint returns the text in a colour.
func Paint(colour Colour, text string) string {
	if codes[colour] == "" || text == "" {
		return text
	}
	return codes[colour] + text + reset
}

// When says when there is colour. It is the value of a flag.
type When string

// When there is colour.
const (
	Auto   When = "auto"
	Always When = "always"
	Never  When = "never"
)

// String is the flag's value.
func (w *When) String() string { return string(*w) }

// Type is shown in the flag's description.
func (w *When) Type() string { return "when" }

// Set takes the flag's value.
func (w *When) Set(value string) error {
	switch When(value) {
	case Auto, Always, Never:
		*w = When(value)
		return nil
	}
	return fmt.Errorf("it is one of %s, %s, %s", Auto, Always, Never)
}

// Colours tells whether to write in colour: Auto does on a terminal that can, unless the environment
// has NO_COLOR (no-color.org).
func (w *When) Colours(out io.Writer) bool {
	switch *w {
	case Always:
		return true
	case Never:
		return false
	case Auto:
	}
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && Is(out)
}

// Is tells whether somebody looks at what is written there.
func Is(out io.Writer) bool {
	file, is := out.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// Width is how many letters fit into a line there.
func Width(out io.Writer) int {
	const usual = 80
	if file, is := out.(*os.File); is {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return usual
}
