// Package terminal writes aligned tables and coloured text for people. Without a terminal it writes plain text.
package terminal

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Colour is the meaning of a text, not its look.
type Colour int

// The colours.
const (
	Plain Colour = iota
	// Good, Doubtful and Bad rate a state.
	Good
	Doubtful
	Bad
	// Faint is less important, Strong more.
	Faint
	Strong
)

// codes are the standard colours of terminals, which suit their background.
var codes = map[Colour]string{Good: "\x1b[32m", Doubtful: "\x1b[33m", Bad: "\x1b[31m", Faint: "\x1b[2m", Strong: "\x1b[1m"}

const reset = "\x1b[0m"

// Paint returns the text in a colour.
func Paint(colour Colour, text string) string {
	if codes[colour] == "" || text == "" {
		return text
	}
	return codes[colour] + text + reset
}

// ColourMode is when to use colours. It is the value of a flag.
type ColourMode string

// The values of ColourMode.
const (
	Auto   ColourMode = "auto"
	Always ColourMode = "always"
	Never  ColourMode = "never"
)

// String implements pflag.Value.
func (w *ColourMode) String() string { return string(*w) }

// Type implements pflag.Value.
func (w *ColourMode) Type() string { return "when" }

// Set implements pflag.Value.
func (w *ColourMode) Set(value string) error {
	switch ColourMode(value) {
	case Auto, Always, Never:
		*w = ColourMode(value)
		return nil
	}
	return fmt.Errorf("use %s, %s or %s", Auto, Always, Never)
}

// Colours reports whether to write colours. Auto does so on a terminal, unless the environment has NO_COLOR
// (no-color.org).
func (w *ColourMode) Colours(out io.Writer) bool {
	switch *w {
	case Always:
		return true
	case Never:
		return false
	case Auto:
	}
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && Is(out)
}

// Is reports whether a writer is a terminal.
func Is(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Width returns the number of characters in a line of a terminal.
func Width(out io.Writer) int {
	const defaultWidth = 80
	if file, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return defaultWidth
}
