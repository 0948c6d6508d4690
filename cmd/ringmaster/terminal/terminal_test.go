package terminal_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
)

func table() *terminal.Table {
	t := &terminal.Table{Indent: "  "}
	t.Add(terminal.Cell{Text: "NAME", Colour: terminal.Strong}, terminal.Cell{Text: "COUNT", Right: true}, terminal.Cell{Text: "NOTE"})
	t.Add(terminal.Cell{Text: "fünf", Colour: terminal.Good}, terminal.Cell{Text: "5", Right: true}, terminal.Cell{})
	t.Add(terminal.Cell{Text: "a thousand"}, terminal.Cell{Text: "1000000", Right: true}, terminal.Cell{Text: "more"})
	return t
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := table().Write(&out, false); err != nil {
		t.Fatal(err)
	}
	const want = `
  NAME           COUNT   NOTE
  fünf               5
  a thousand   1000000   more
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestControlCharactersAreNotPrinted has a text that would change the title of the terminal.
func TestControlCharactersAreNotPrinted(t *testing.T) {
	const text = "a\x1b]0;title\x07b\nc\u009b"
	if got, want := terminal.Printable(text), "a ]0;title b\nc "; got != want {
		t.Errorf("it prints %q, want %q", got, want)
	}
	var out strings.Builder
	written := &terminal.Table{}
	written.Add(terminal.Cell{Text: text}, terminal.Cell{Text: "end"})
	if err := written.Write(&out, false); err != nil || out.String() != "a ]0;title b c    end\n" {
		t.Errorf("%v: the table is %q", err, out.String())
	}
}

// TestColoursHaveNoWidth compares a coloured table without its colours with a plain one.
func TestColoursHaveNoWidth(t *testing.T) {
	var plain, coloured strings.Builder
	if err := table().Write(&plain, false); err != nil {
		t.Fatal(err)
	}
	if err := table().Write(&coloured, true); err != nil {
		t.Fatal(err)
	}
	if plain.String() == coloured.String() {
		t.Error("no colour was written")
	}
	stripped := strings.NewReplacer("\x1b[32m", "", "\x1b[1m", "", "\x1b[0m", "").Replace(coloured.String())
	if diff := cmp.Diff(plain.String(), stripped); diff != "" {
		t.Error(diff)
	}
}

func TestColourMode(t *testing.T) {
	var when terminal.ColourMode
	for _, value := range []string{"auto", "always", "never"} {
		if err := when.Set(value); err != nil || when.String() != value {
			t.Errorf("%s: %v", value, err)
		}
	}
	if err := when.Set("sometimes"); err == nil {
		t.Error("it accepts an unknown value")
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for value, want := range map[terminal.ColourMode]bool{terminal.Auto: false, terminal.Always: true, terminal.Never: false} {
		if got := value.Colours(file); got != want {
			t.Errorf("%s in a file: %t", value, got)
		}
	}
}
