//go:build unix

package screen

import (
	"testing"

	"github.com/charmbracelet/x/vt"
)

func TestChangesBetween(t *testing.T) {
	for name, test := range map[string]struct {
		before, after []string
		want          string
	}{
		"first draw":       {nil, []string{"a", "b"}, "\x1b[?2026h\x1b[H\x1b[J\x1b[1;1H\x1b[Ka\x1b[2;1H\x1b[Kb\x1b[?2026l"},
		"no change":        {[]string{"a", "b"}, []string{"a", "b"}, ""},
		"one line changes": {[]string{"a", "b", "c"}, []string{"a", "x", "c"}, "\x1b[?2026h\x1b[2;1H\x1b[Kx\x1b[?2026l"},
		"more lines":       {[]string{"a"}, []string{"a", "b"}, "\x1b[?2026h\x1b[2;1H\x1b[Kb\x1b[?2026l"},
		"fewer lines":      {[]string{"a", "b", "c"}, []string{"a"}, "\x1b[?2026h\x1b[2;1H\x1b[J\x1b[?2026l"},
		"no lines":         {[]string{"a"}, []string{}, "\x1b[?2026h\x1b[1;1H\x1b[J\x1b[?2026l"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := changesBetween(test.before, test.after); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestStripEscapeSequences(t *testing.T) {
	for input, want := range map[string]string{
		"x":               "x",
		"xy\x03":          "xy\x03",
		"\x1b":            "\x1b",
		"\x1b[A":          "",
		"a\x1b[Ab":        "ab",
		"\x1b[1;5Cc":      "c",
		"\x1bOPk":         "k",
		"\x1b[15~\x1b[Bq": "q",
		"\x1b[1;":         "",
	} {
		if got := string(stripEscapeSequences([]byte(input))); got != want {
			t.Errorf("%q: got %q, want %q", input, got, want)
		}
	}
}

// TestLinesOfFullWidth draws lines that end in the last column of an emulated terminal.
func TestLinesOfFullWidth(t *testing.T) {
	terminal := vt.NewEmulator(4, 2)
	for _, changes := range []string{changesBetween(nil, []string{"abcd", "efgh"}), changesBetween([]string{"abcd", "efgh"}, []string{"ab", "ijkl"})} {
		if _, err := terminal.WriteString(changes); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := terminal.String(), "ab\nijkl"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
