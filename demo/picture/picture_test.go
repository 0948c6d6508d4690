//go:build unix

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// show is what a terminal shows after something was written to it, in pieces of every size.
func show(t *testing.T, written string) *terminal {
	t.Helper()
	whole := newTerminal(6, 3)
	if _, err := io.WriteString(whole, written); err != nil {
		t.Fatal(err)
	}
	for size := 1; size < 4; size++ {
		pieces := newTerminal(6, 3)
		for rest := []byte(written); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			_, _ = pieces.Write(rest[:min(size, len(rest))])
		}
		if diff := cmp.Diff(whole.frame(), pieces.frame(), cmp.AllowUnexported(cell{}, style{})); diff != "" {
			t.Errorf("in pieces of %d it shows something else: %s", size, diff)
		}
	}
	return whole
}

func TestTerminal(t *testing.T) {
	for name, test := range map[string]struct{ written, want string }{
		"text":               {"ab\r\ncd", "ab\ncd\n\n"},
		"it does not wrap":   {"abcdefgh\r\nx", "abcdef\nx\n\n"},
		"go somewhere":       {"\x1b[2;3Hx\x1b[1;1Hy", "y\n  x\n\n"},
		"go nowhere":         {"ab\x1b[Hx", "xb\n\n\n"},
		"too far":            {"\x1b[9;9Hx", "\n\n     x\n"},
		"clear a line":       {"abc\x1b[1;2H\x1b[K", "a\n\n\n"},
		"clear the rest":     {"a\r\nb\r\nc\x1b[2;1H\x1b[J", "a\n\n\n"},
		"more than one cell": {"ä→█", "ä→█\n\n\n"},
		"what it ignores":    {"\x1b[?2026hab\x1b[?25l\x1b[?2026l", "ab\n\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, show(t, test.written).text()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStyles(t *testing.T) {
	frame := show(t, "a\x1b[1mb\x1b[0m\x1b[31mc\x1b[2md\x1b[0m\x1b[7me\x1b[0mf").frame()
	want := []style{{}, {bold: true}, {colour: 31}, {colour: 31, dim: true}, {reverse: true}, {}}
	var got []style
	for _, c := range frame[0] {
		got = append(got, c.style)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(style{})); diff != "" {
		t.Error(diff)
	}
}

func TestOtherScreen(t *testing.T) {
	if !show(t, "\x1b[?1049h").other || show(t, "\x1b[?1049h\x1b[?1049l").other {
		t.Error("it does not know which screen is shown")
	}
}

// TestDraw draws something with every style, and reads what came of it.
func TestDraw(t *testing.T) {
	frame := show(t, "a  <b>\r\n\x1b[36m██\x1b[33m▒\x1b[0m\r\n\x1b[1;31mx\x1b[0m\x1b[7my\x1b[0m").frame()
	picture := draw([]shot{{frame, "first & last", time.Second}, {frame, "second", time.Second}})
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("it is no picture: %v\n%s", err, picture)
		}
	}
	for _, want := range []string{
		`<text x="16" y="47" textLength="8">a</text>`,
		`<text x="40" y="47" textLength="24">&lt;b&gt;</text>`,
		`<rect x="16" y="54" width="16" height="14" class="c36" opacity="1"/>`,
		`<rect x="32" y="54" width="8" height="14" class="c33" opacity="0.5"/>`,
		`<text x="16" y="81" class="b c31" textLength="8">x</text>`,
		`<rect x="24" y="68" width="8" height="17" fill="#e6edf3"/>`,
		`first &amp; last`,
		`@keyframes k0 { 0.00% { visibility: visible; } 50.00% { visibility: hidden; } }`,
		`.s1 { visibility: visible; }`,
	} {
		if !strings.Contains(picture, want) {
			t.Errorf("%s is missing in:\n%s", want, picture)
		}
	}
	if alone := draw([]shot{{frame, "alone", time.Second}}); strings.Contains(alone, "keyframes") {
		t.Error("one shot does not move")
	}
}
