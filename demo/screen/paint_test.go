//go:build unix

package screen

import "testing"

func TestPaint(t *testing.T) {
	for name, test := range map[string]struct {
		before, after []string
		want          string
	}{
		"nothing is there":   {nil, []string{"a", "b"}, "\x1b[?2026h\x1b[H\x1b[J\x1b[1;1Ha\x1b[K\x1b[2;1Hb\x1b[K\x1b[?2026l"},
		"nothing changes":    {[]string{"a", "b"}, []string{"a", "b"}, ""},
		"one line changes":   {[]string{"a", "b", "c"}, []string{"a", "x", "c"}, "\x1b[?2026h\x1b[2;1Hx\x1b[K\x1b[?2026l"},
		"there are more":     {[]string{"a"}, []string{"a", "b"}, "\x1b[?2026h\x1b[2;1Hb\x1b[K\x1b[?2026l"},
		"there are fewer":    {[]string{"a", "b", "c"}, []string{"a"}, "\x1b[?2026h\x1b[2;1H\x1b[J\x1b[?2026l"},
		"everything is gone": {[]string{"a"}, []string{}, "\x1b[?2026h\x1b[1;1H\x1b[J\x1b[?2026l"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := paint(test.before, test.after); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestKeysIn(t *testing.T) {
	for typed, want := range map[string]string{
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
		if got := string(keysIn([]byte(typed))); got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
}
