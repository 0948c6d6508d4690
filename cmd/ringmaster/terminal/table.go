package terminal

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// gap separates two columns.
const gap = "   "

// Printable returns a text without control characters except line breaks. Everyone who can write to the cluster, such as
// the holder of a Lease, could otherwise change what the terminal shows.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return ' '
		}
		return r
	}, text)
}

// Cell is a text in a table.
type Cell struct {
	Text   string
	Colour Colour
	// Right aligns the text to the right, as for numbers.
	Right bool
}

// Table has rows of cells. The first row has the headers.
type Table struct {
	// Indent is written before each row.
	Indent string
	Rows   [][]Cell
}

// Add adds a row.
func (t *Table) Add(row ...Cell) { t.Rows = append(t.Rows, row) }

// Write writes the table.
func (t *Table) Write(out io.Writer, coloured bool) error {
	widths := t.widths()
	var text strings.Builder
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for column, cell := range row {
			cells[column] = cell.padded(widths[column], coloured)
		}
		text.WriteString(strings.TrimRight(t.Indent+strings.Join(cells, gap), " "))
		text.WriteString("\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func (t *Table) widths() []int {
	var widths []int
	for _, row := range t.Rows {
		for column, cell := range row {
			if column == len(widths) {
				widths = append(widths, 0)
			}
			widths[column] = max(widths[column], utf8.RuneCountInString(cell.Text))
		}
	}
	return widths
}

// padded returns the text with spaces up to a width. Colours have no width.
func (c Cell) padded(width int, coloured bool) string {
	spaces := strings.Repeat(" ", width-utf8.RuneCountInString(c.Text))
	text := strings.ReplaceAll(Printable(c.Text), "\n", " ")
	if coloured {
		text = Paint(c.Colour, text)
	}
	if c.Right {
		return spaces + text
	}
	return text + spaces
}
