package report

import (
	"cmp"
	"encoding/xml"
	"errors"
	"html"
	"io"
	"strings"
	"testing"

	"github.com/ringmaster-project/ringmaster/internal/stats"
)

func TestAmount(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"0": amount(0, ""), "7,289": amount(7289, ""), "1.50 MiB": amount(1.5*(1<<20), "B"), "2 KiB/s": amount(2048, "B/s"), "12 ms": amount(0.012, "s"),
		"1 s": amount(1, "s"), "0.050 cores": amount(0.05, "cores"), "12.3": amount(12.345, ""), "-1,200": amount(-1200, ""),
		"4.50×": Times(9, 2), "4.90×": amount(4.9, "×"), "–": Times(1, 0), "100 B": amount(100, "B"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRoundUpTick(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]float64{0: 1, 0.07: 0.08, 1: 1, 1.2: 1.2, 9.9: 10, 101: 120, 4500: 6000} {
		if got := roundUpTick(value); got < want*0.999 || got > want*1.001 {
			t.Errorf("%g: got %g, want %g", value, got, want)
		}
	}
}

// A picture is valid XML, names its axes and lines, and refers to nothing outside of it.
func TestPicture(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]chart{
		"no points":    {title: "none", unit: "s", y: "p99"},
		"one point":    {title: "one", unit: "s", lines: []line{{"a", []point{{x: 3, y: 2}}}}, limit: 1},
		"a name":       {title: `<&">`, lines: []line{{`<b>"x"</b>`, []point{{x: 0}, {x: 60, y: 1}}}}, marks: []mark{{30, "<killed>"}}, y: "<axis>"},
		"many":         {title: "many", unit: "B", lines: manyLines(20)},
		"by instances": {title: "capacity", across: "instances", lines: []line{{"objects", []point{{x: 1, y: 10, low: 9, high: 12}, {x: 2, y: 20}, {x: 5, y: 45}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			picture := c.svg()
			decoder := xml.NewDecoder(strings.NewReader(picture))
			for {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%v in %s", err, picture)
				}
			}
			for _, k := range c.legend() {
				if !strings.Contains(picture, ">"+html.EscapeString(c.lines[k.line].name)+"</text>") || k.x < left || k.x > right {
					t.Errorf("line %d has no visible name", k.line)
				}
			}
			for _, axis := range []string{cmp.Or(c.across, "time since the run began [min:s]"), cmp.Or(c.y, c.title)} {
				if !strings.Contains(picture, ">"+html.EscapeString(axis)+"</text>") {
					t.Errorf("an axis has no title %q", axis)
				}
			}
			for _, wrong := range []string{"NaN", "Inf", "http://127", "<b>"} {
				if strings.Contains(picture, wrong) {
					t.Errorf("%s in %s", wrong, picture)
				}
			}
		})
	}
}

func TestPictureShowsRange(t *testing.T) {
	t.Parallel()
	c := chart{across: "instances"}
	c.add("external", rangePoint(1, stats.Summarize([]float64{600, 640, 620})))
	if picture := c.svg(); !strings.Contains(picture, "<title>600 to 640</title>") || !strings.Contains(picture, "<title>620</title>") {
		t.Error("the median or the range is missing in", picture)
	}
}

// All charts of a run have the same time axis, whenever their lines begin.
func TestTimeAxisEndsWithRun(t *testing.T) {
	t.Parallel()
	c := chart{until: 600, lines: []line{{"late", []point{{x: 300, y: 1}, {x: 400, y: 1}}}}}
	if x, _ := c.scale().at(point{x: 300, y: 1}); x != (left+right)/2 {
		t.Errorf("the middle is at %f", x)
	}
	if x, _ := c.scale().at(point{x: 600, y: 1}); x != right {
		t.Errorf("the end is at %f", x)
	}
}

func manyLines(n int) []line {
	var all []line
	for i := range n {
		all = append(all, line{"a process with a long name", []point{{x: 0, y: float64(i)}, {x: 600, y: float64(i * i)}}})
	}
	return all
}
