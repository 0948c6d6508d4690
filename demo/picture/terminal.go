//go:build unix

package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// style is how a cell looks: what the terminal was told last.
type style struct {
	bold, dim, reverse bool
	colour             int // 30 to 37, or 0
}

// cell is a character on the screen.
type cell struct {
	char  rune
	style style
}

// terminal shows what a program writes: as much of a terminal as the live view needs.
type terminal struct {
	width, height int
	cells         [][]cell
	row, column   int
	style         style
	other         bool // the other screen is shown, which the program has taken
	rest          []byte
}

func newTerminal(width, height int) *terminal {
	t := &terminal{width: width, height: height}
	t.clear(0)
	return t
}

// clear empties all lines from one on.
func (t *terminal) clear(from int) {
	if t.cells == nil {
		t.cells = make([][]cell, t.height)
	}
	for row := from; row < t.height; row++ {
		t.cells[row] = blank(t.width)
	}
}

func blank(width int) []cell {
	line := make([]cell, width)
	for i := range line {
		line[i].char = ' '
	}
	return line
}

// Write shows what is written. A sequence that has only begun waits for its end.
func (t *terminal) Write(written []byte) (int, error) {
	t.rest = append(t.rest, written...)
	for len(t.rest) > 0 {
		n := t.next(t.rest)
		if n == 0 {
			break
		}
		t.rest = t.rest[n:]
	}
	return len(written), nil
}

// next shows one character or does what one sequence says, and returns how long that was: 0 if its end is
// missing.
func (t *terminal) next(text []byte) int {
	switch text[0] {
	case '\x1b':
		return t.sequence(text)
	case '\r':
		t.column = 0
		return 1
	case '\n':
		t.row = min(t.row+1, t.height-1)
		return 1
	}
	if !utf8.FullRune(text) {
		return 0
	}
	char, n := utf8.DecodeRune(text)
	if t.column < t.width {
		t.cells[t.row][t.column] = cell{char, t.style}
		t.column++
	}
	return n
}

// sequence does what an escape sequence says, if it is one that the live view uses.
func (t *terminal) sequence(text []byte) int {
	end := 2
	for end < len(text) && (text[end] < '@' || text[end] > '~') {
		end++
	}
	if end >= len(text) {
		return 0
	}
	arguments := string(text[2:end])
	switch text[end] {
	case 'H':
		row, column, _ := strings.Cut(arguments, ";")
		t.row, t.column = position(row, t.height), position(column, t.width)
	case 'J':
		t.clear(t.row)
	case 'K':
		copy(t.cells[t.row][t.column:], blank(t.width-t.column))
	case 'm':
		for argument := range strings.SplitSeq(arguments, ";") {
			t.set(argument)
		}
	case 'h', 'l':
		if arguments == "?1049" {
			t.other = text[end] == 'h'
		}
	}
	return end + 1
}

// position is a coordinate, which terminals count from 1.
func position(argument string, limit int) int {
	n, err := strconv.Atoi(argument)
	if err != nil {
		return 0
	}
	return max(0, min(n-1, limit-1))
}

func (t *terminal) set(argument string) {
	switch argument {
	case "1":
		t.style.bold = true
	case "2":
		t.style.dim = true
	case "7":
		t.style.reverse = true
	case "31", "32", "33", "34", "35", "36":
		t.style.colour, _ = strconv.Atoi(argument)
	default:
		t.style = style{}
	}
}

// frame is what is shown at the moment.
func (t *terminal) frame() [][]cell {
	frame := make([][]cell, len(t.cells))
	for row := range t.cells {
		frame[row] = append([]cell{}, t.cells[row]...)
	}
	return frame
}

// text is what is shown, without styles.
func (t *terminal) text() string {
	var text strings.Builder
	for _, line := range t.cells {
		var chars strings.Builder
		for _, c := range line {
			chars.WriteRune(c.char)
		}
		text.WriteString(strings.TrimRight(chars.String(), " ") + "\n")
	}
	return text.String()
}
