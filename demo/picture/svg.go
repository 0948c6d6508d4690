//go:build unix

package main

import (
	"fmt"
	"html"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// frame is a state of the terminal with its caption and duration.
type frame struct {
	cells    [][]cell
	caption  string
	duration time.Duration
}

// cell is a character with its style.
type cell struct {
	char  rune
	style style
}

// style is the style of a character.
type style struct {
	bold, dim, reverse bool
	colour             int // 31 to 36, or 0
}

// readCells returns the cells of a terminal.
func readCells(terminal *vt.Emulator) [][]cell {
	cells := make([][]cell, terminal.Height())
	for y := range cells {
		cells[y] = make([]cell, terminal.Width())
		for x := range cells[y] {
			cells[y][x] = cell{char: ' '}
			shown := terminal.CellAt(x, y)
			if shown == nil || shown.Content == "" {
				continue
			}
			char, _ := utf8.DecodeRuneInString(shown.Content)
			attributes := shown.Style.Attrs
			cells[y][x] = cell{char, style{
				bold: attributes&uv.AttrBold != 0, dim: attributes&uv.AttrFaint != 0, reverse: attributes&uv.AttrReverse != 0,
			}}
			if colour, ok := shown.Style.Fg.(ansi.BasicColor); ok {
				cells[y][x].style.colour = 30 + int(colour)
			}
		}
	}
	return cells
}

// The size of a cell and of the window around all cells, and the colours. The window has its own
// background, so that it is legible on light and dark pages.
const (
	cellWidth, cellHeight = 8, 17
	fontSize              = 13
	margin, bar           = 16, 34
	background, bright    = "#161b22", "#e6edf3"
	faint                 = "#8b949e"
)

var colours = map[int]string{31: "#ff7b72", 32: "#3fb950", 33: "#d29922", 34: "#79c0ff", 35: "#d2a8ff", 36: "#39c5cf"}

// draw returns an animated SVG that repeats the frames.
func draw(frames []frame) string {
	width := cellWidth*len(frames[0].cells[0]) + 2*margin
	height := cellHeight*len(frames[0].cells) + margin + bar
	var total time.Duration
	for _, f := range frames {
		total += f.duration
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="The live view of ringmaster up">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&out, "<style>\ntext { font: %dpx ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: %s; }\n",
		fontSize, bright)
	out.WriteString(".b { font-weight: bold; }\n.d { fill: " + faint + "; }\n")
	for code := 31; code <= 36; code++ {
		fmt.Fprintf(&out, ".c%d { fill: %s; }\n", code, colours[code])
	}
	out.WriteString(keyframes(frames, total))
	fmt.Fprintf(&out, "</style>\n"+`<rect width="%d" height="%d" rx="10" fill="%s"/>`+"\n", width, height, background)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&out, `<circle cx="%d" cy="%d" r="5" fill="%s"/>`+"\n", margin+6+i*18, bar/2, colour)
	}
	for i, f := range frames {
		fmt.Fprintf(&out, `<g class="s s%d">`+"\n", i)
		fmt.Fprintf(&out, `<text x="%d" y="%d" class="d" text-anchor="middle">%s</text>`+"\n", width/2, bar/2+4, html.EscapeString(f.caption))
		for row, line := range f.cells {
			out.WriteString(drawLine(line, bar+row*cellHeight))
		}
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// keyframes returns the CSS that shows each frame for its duration. Without animation, only the
// last frame is visible.
func keyframes(frames []frame, total time.Duration) string {
	if len(frames) == 1 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, ".s { animation: %.1fs step-end infinite; visibility: hidden; }\n", total.Seconds())
	fmt.Fprintf(&out, ".s%d { visibility: visible; }\n", len(frames)-1)
	var before time.Duration
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / total.Seconds() }
	for i, f := range frames {
		after := before + f.duration
		fmt.Fprintf(&out, "@keyframes k%d {", i)
		if i > 0 {
			out.WriteString(" 0% { visibility: hidden; }")
		}
		fmt.Fprintf(&out, " %.2f%% { visibility: visible; }", percent(before))
		if i < len(frames)-1 {
			fmt.Fprintf(&out, " %.2f%% { visibility: hidden; }", percent(after))
		}
		fmt.Fprintf(&out, " }\n.s%d { animation-name: k%d; }\n", i, i)
		before = after
	}
	out.WriteString("@media (prefers-reduced-motion: reduce) { .s { animation: none; } }\n")
	return out.String()
}

// drawLine draws runs of cells with the same style. Block characters are drawn as rectangles,
// because fonts leave gaps between them.
func drawLine(line []cell, top int) string {
	var out strings.Builder
	for start := 0; start < len(line); {
		end := start + 1
		for end < len(line) && line[end].style == line[start].style && blockOpacity(line[end].char) == blockOpacity(line[start].char) {
			end++
		}
		drawRun(&out, line[start:end], margin+start*cellWidth, top)
		start = end
	}
	return out.String()
}

// blockOpacity returns the opacity of a block character, or 0 for other characters.
func blockOpacity(char rune) float64 {
	switch char {
	case '█':
		return 1
	case '▒':
		return 0.5
	}
	return 0
}

func drawRun(out *strings.Builder, run []cell, left, top int) {
	width := len(run) * cellWidth
	if opacity := blockOpacity(run[0].char); opacity > 0 {
		const gap = 3
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" class="c%d" opacity="%g"/>`+"\n",
			left, top+gap, width, cellHeight-gap, max(31, run[0].style.colour), opacity)
		return
	}
	class := classOf(run[0].style)
	if run[0].style.reverse {
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", left, top, width, cellHeight, bright)
		class = ` style="fill: ` + background + `"`
	}
	const baseline = 13
	for start, word := range words(run) {
		fmt.Fprintf(out, `<text x="%d" y="%d"%s textLength="%d">%s</text>`+"\n",
			left+start*cellWidth, top+baseline, class, len([]rune(word))*cellWidth, html.EscapeString(word))
	}
}

// words returns the texts between two or more spaces, with their positions. SVG would collapse
// several spaces in one text.
func words(run []cell) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for start := 0; start < len(run); {
			if run[start].char == ' ' {
				start++
				continue
			}
			var word strings.Builder
			end := start
			for end < len(run) && (run[end].char != ' ' || end+1 < len(run) && run[end+1].char != ' ') {
				word.WriteRune(run[end].char)
				end++
			}
			if !yield(start, word.String()) {
				return
			}
			start = end
		}
	}
}

func classOf(s style) string {
	var classes []string
	if s.bold {
		classes = append(classes, "b")
	}
	if s.dim {
		classes = append(classes, "d")
	}
	if s.colour != 0 {
		classes = append(classes, fmt.Sprintf("c%d", s.colour))
	}
	if len(classes) == 0 {
		return ""
	}
	return ` class="` + strings.Join(classes, " ") + `"`
}
