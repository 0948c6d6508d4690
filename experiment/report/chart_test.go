package report

import (
	"encoding/xml"
	"errors"
	"html"
	"io"
	"strings"
	"testing"
)

func TestAmount(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"0": amount(0, ""), "7,289": amount(7289, ""), "1.50 MiB": amount(1.5*(1<<20), "B"), "2 KiB/s": amount(2048, "B/s"), "12 ms": amount(0.012, "s"),
		"1 s": amount(1, "s"), "0.050 cores": amount(0.05, "cores"), "12.3": amount(12.345, ""), "-1,200": amount(-1200, ""),
		"4.50 times": times(9, 2), "–": times(1, 0), "100 B": amount(100, "B"),
	} {
		if got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
}

func TestNice(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]float64{0: 1, 0.07: 0.08, 1: 1, 1.2: 1.2, 9.9: 10, 101: 120, 4500: 6000} {
		if got := nice(value); got < want*0.999 || got > want*1.001 {
			t.Errorf("%g: %g instead of %g", value, got, want)
		}
	}
}

// Whatever there is to see, it is a picture that can be read, with nothing outside of it.
func TestChart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]chart{
		"nothing":      {title: "nothing", unit: "s"},
		"one point":    {title: "one", unit: "s", lines: []line{{"a", []point{{3, 2}}}}, limit: 1},
		"a name":       {title: `<&">`, lines: []line{{`<b>"x"</b>`, []point{{0, 0}, {60, 1}}}}, marks: []mark{{30, "<killed>"}}},
		"many":         {title: "many", unit: "B", lines: slicesOf(20)},
		"by instances": {title: "capacity", across: "instances", lines: []line{{"objects", []point{{1, 10}, {2, 20}, {5, 45}}}}},
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
					t.Errorf("line %d is not named, or not to be seen", k.line)
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

// Pictures of one run have the same time from left to right, whenever their lines begin.
func TestUntil(t *testing.T) {
	t.Parallel()
	c := chart{until: 600, lines: []line{{"late", []point{{300, 1}, {400, 1}}}}}
	if x, _ := c.scale().at(point{300, 1}); x != (left+right)/2 {
		t.Errorf("the middle is at %f", x)
	}
	if x, _ := c.scale().at(point{600, 1}); x != right {
		t.Errorf("the end is at %f", x)
	}
}

func slicesOf(n int) []line {
	var all []line
	for i := range n {
		all = append(all, line{"a process with a long name", []point{{0, float64(i)}, {600, float64(i * i)}}})
	}
	return all
}
