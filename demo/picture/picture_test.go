//go:build unix

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/google/go-cmp/cmp"
)

// show returns the cells of a terminal after something was written to it.
func show(t *testing.T, written string) [][]cell {
	t.Helper()
	terminal := vt.NewEmulator(6, 3)
	if _, err := terminal.WriteString(written); err != nil {
		t.Fatal(err)
	}
	return readCells(terminal)
}

func TestReadCells(t *testing.T) {
	cells := show(t, "a\x1b[1mb\x1b[0m\x1b[31mc\x1b[2md\x1b[0m\x1b[7me\x1b[0mf\x1b[2;3H→")
	want := []cell{
		{'a', style{}},
		{'b', style{bold: true}},
		{'c', style{colour: 31}},
		{'d', style{colour: 31, dim: true}},
		{'e', style{reverse: true}},
		{'f', style{}},
	}
	if diff := cmp.Diff(want, cells[0], cmp.AllowUnexported(cell{}, style{})); diff != "" {
		t.Error(diff)
	}
	if got := []rune{cells[1][1].char, cells[1][2].char, cells[2][5].char}; string(got) != " → " {
		t.Errorf("got %q", string(got))
	}
}

// TestDraw draws every style, and parses the result.
func TestDraw(t *testing.T) {
	cells := show(t, "a  <b>\r\n\x1b[36m██\x1b[33m▒\x1b[0m\r\n\x1b[1;31mx\x1b[0m\x1b[7my\x1b[0m")
	picture := draw([]frame{{cells, "first & last", time.Second}, {cells, "second", time.Second}})
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("invalid XML: %v\n%s", err, picture)
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
	if single := draw([]frame{{cells, "single", time.Second}}); strings.Contains(single, "keyframes") {
		t.Error("a single frame is animated")
	}
}
