package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"
)

// chart is a picture of something over time, or over a number.
type chart struct {
	title string
	// unit is that of the values: "", "s", "B", "B/s" or "cores".
	unit  string
	lines []line
	// limit is drawn as a line that should not be crossed, if it is above 0.
	limit float64
	// marks are moments at which something happened.
	marks []mark
	// across is what is from left to right, "time" if it is not set. Then until is where it ends, so that pictures can be compared.
	across string
	until  float64
}

type line struct {
	name   string
	points []point
}

// point has seconds since the beginning, or a number.
type point struct{ x, y float64 }

type mark struct {
	x    float64
	what string
}

const (
	width = 720.0
	// What is drawn is between these; below it are the legend's rows.
	left, right, top, floor = 92.0, width - 16, 34.0, 254.0
	row                     = 17.0
)

// colours are told apart also by those who see fewer: they differ in lightness too. In the dark others are used.
var (
	colours     = []string{"#0969da", "#bf3989", "#1a7f37", "#9a6700", "#8250df", "#cf222e", "#0e7490", "#57606a"}
	darkColours = []string{"#58a6ff", "#f778ba", "#56d364", "#e3b341", "#bc8cff", "#ff7b72", "#39c5cf", "#adbac7"}
)

// style is that of all pictures. It is in each of them, since a picture may be looked at alone.
func style() string {
	var b strings.Builder
	b.WriteString("<style>.chart{font:12px system-ui,sans-serif}.chart text{fill:#1f2328}.chart .soft{fill:#57606a}.chart .grid{stroke:#d0d7de;stroke-width:.6}" +
		".chart .limit{stroke:#cf222e;stroke-dasharray:6 4;stroke-width:1.2}.chart .mark{stroke:#8250df;stroke-width:1;stroke-dasharray:2 3}.chart polyline{fill:none;stroke-width:1.7}.chart .gaps{stroke-dasharray:5 3}")
	for i, c := range colours {
		fmt.Fprintf(&b, ".chart .c%d{stroke:%s}.chart .f%d{fill:%s}", i, c, i, c)
	}
	b.WriteString("@media(prefers-color-scheme:dark){.chart text{fill:#e6edf3}.chart .soft{fill:#9198a1}.chart .grid{stroke:#3d444d}.chart .limit{stroke:#ff7b72}.chart .mark{stroke:#bc8cff}")
	for i, c := range darkColours {
		fmt.Fprintf(&b, ".chart .c%d{stroke:%s}.chart .f%d{fill:%s}", i, c, i, c)
	}
	b.WriteString("}</style>")
	return b.String()
}

// scale is how large a picture's values are.
type scale struct{ x0, x1, y1 float64 }

func (c *chart) scale() scale {
	s := scale{x0: math.Inf(1), x1: math.Inf(-1), y1: c.limit * 1.1}
	if c.until > 0 {
		s.x0, s.x1 = 0, c.until
	}
	for _, l := range c.lines {
		for _, p := range l.points {
			s.x0, s.x1, s.y1 = min(s.x0, p.x), max(s.x1, p.x), max(s.y1, p.y)
		}
	}
	switch {
	case math.IsInf(s.x0, 0): // nothing is there
		s.x0, s.x1 = 0, 1
	case s.x1 <= s.x0:
		s.x0, s.x1 = min(s.x0, 0), max(s.x0, 0)+1
	}
	unit := size(s.y1, c.unit)
	s.y1 = unit * nice(s.y1/unit)
	return s
}

// size is what a value is told in: MiB, for example.
func size(value float64, unit string) float64 {
	if strings.HasPrefix(unit, "B") {
		for _, of := range sizes {
			if value >= of.size {
				return of.size
			}
		}
	}
	return 1
}

// sizes are names for many bytes.
var sizes = []struct {
	size float64
	name string
}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}}

// nice is a round number that is not smaller, and of which a quarter is round too.
func nice(value float64) float64 {
	if value <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, factor := range []float64{1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10} {
		if value <= factor*power*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

func (s scale) at(p point) (x, y float64) {
	return left + (p.x-s.x0)/(s.x1-s.x0)*(right-left), floor - p.y/s.y1*(floor-top)
}

// svg is the picture.
func (c *chart) svg() string {
	s := c.scale()
	keys := c.legend()
	height := floor + 32.0
	if n := len(keys); n > 0 {
		height = keys[n-1].y + 10
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(c.title))
	b.WriteString(style())
	fmt.Fprintf(&b, `<text x="%g" y="18" font-weight="600">%s</text>`, left, html.EscapeString(c.title))
	c.grid(&b, s)
	for _, m := range c.marks {
		x, _ := s.at(point{m.x, 0})
		fmt.Fprintf(&b, `<line class="mark" x1="%.1f" x2="%.1f" y1="%g" y2="%g"><title>%s</title></line>`, x, x, top, floor, html.EscapeString(m.what))
	}
	if c.limit > 0 {
		_, y := s.at(point{0, c.limit})
		fmt.Fprintf(&b, `<line class="limit" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="soft" x="%g" y="%.1f" text-anchor="end">at most %s</text>`,
			left, right, y, y, right, y-4, amount(c.limit, c.unit))
	}
	for i, l := range c.lines {
		c.draw(&b, s, l, i)
	}
	for _, k := range keys {
		fmt.Fprintf(&b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%g" y2="%g" stroke-width="3"/><text class="soft" x="%.1f" y="%g">%s</text>`,
			pen(k.line), k.x, k.x+keyLine, k.y-4, k.y-4, k.x+keyLine+4, k.y, html.EscapeString(c.lines[k.line].name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// pen is how a line is drawn: when there are no more colours, with gaps.
func pen(line int) string {
	class := fmt.Sprint("c", line%len(colours))
	if line >= len(colours) {
		class += " gaps"
	}
	return class
}

func (c *chart) draw(b *strings.Builder, s scale, l line, number int) {
	fmt.Fprintf(b, `<polyline class="%s" points="`, pen(number))
	for _, p := range l.points {
		x, y := s.at(p)
		fmt.Fprintf(b, "%.1f,%.1f ", x, y)
	}
	fmt.Fprintf(b, `"><title>%s</title></polyline>`, html.EscapeString(l.name))
	if len(l.points) == 1 || c.across != "" {
		for _, p := range l.points {
			x, y := s.at(p)
			fmt.Fprintf(b, `<circle class="f%d" cx="%.1f" cy="%.1f" r="3"><title>%s</title></circle>`, number%len(colours), x, y, amount(p.y, c.unit))
		}
	}
}

const gridLines = 4

func (c *chart) grid(b *strings.Builder, s scale) {
	for i := range gridLines + 1 {
		value := s.y1 * float64(i) / gridLines
		_, y := s.at(point{0, value})
		fmt.Fprintf(b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="soft" x="%g" y="%.1f" text-anchor="end">%s</text>`,
			left, right, y, y, left-6, y+4, amount(value, c.unit))
	}
	for _, value := range c.ticks(s) {
		x, _ := s.at(point{value, 0})
		text := short(value)
		if c.across == "" {
			text = duration(value)
		}
		anchor := "middle"
		if x > right-20 { // it would not fit
			anchor = "end"
		}
		fmt.Fprintf(b, `<text class="soft" x="%.1f" y="%g" text-anchor="%s">%s</text>`, x, floor+16, anchor, text)
	}
}

// ticks are where something is written below.
func (c *chart) ticks(s scale) []float64 {
	if c.across != "" {
		var all []float64
		for _, l := range c.lines {
			for _, p := range l.points {
				if !slices.Contains(all, p.x) {
					all = append(all, p.x)
				}
			}
		}
		return all
	}
	const about = 6
	step := 1.0
	for _, step = range []float64{1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600} {
		if (s.x1-s.x0)/step <= about {
			break
		}
	}
	var all []float64
	for at := math.Ceil(s.x0/step) * step; at <= s.x1; at += step {
		all = append(all, at)
	}
	return all
}

// key is where a line is named.
type key struct {
	line int
	x, y float64
}

// keyLine is how long the piece of the line is that is shown beside its name.
const keyLine = 14

// legend names the lines, in as many rows as it takes.
func (c *chart) legend() []key {
	const letter, gap = 6.6, 16
	var all []key
	x, y := left, floor+38
	for i, l := range c.lines {
		if l.name == "" {
			continue
		}
		long := keyLine + gap + letter*float64(len([]rune(l.name)))
		if x > left && x+long-gap > right {
			x, y = left, y+row
		}
		all = append(all, key{i, x, y})
		x += long
	}
	return all
}

// duration is a time since the beginning.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d < time.Minute {
		return d.String()
	}
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// amount is a value with its unit, short enough to read.
func amount(value float64, unit string) string {
	switch unit {
	case "B", "B/s":
		for _, of := range sizes {
			if value >= of.size {
				return short(value/of.size) + " " + of.name + strings.TrimPrefix(unit, "B")
			}
		}
		return short(value) + " " + unit
	case "s":
		if value > 0 && value < 0.9995 {
			return short(value*1000) + " ms"
		}
		return short(value) + " s"
	case "":
		return short(value)
	}
	return short(value) + " " + unit
}

// times is how many times another value it is.
func times(value, other float64) string {
	if other == 0 {
		return "–"
	}
	return short(value/other) + " times"
}

// short is a number with three digits that matter.
func short(value float64) string {
	switch abs := math.Abs(value); {
	case abs >= 100 || abs == math.Trunc(abs) && abs < 1e6:
		return group(fmt.Sprintf("%.0f", value))
	case abs >= 10:
		return fmt.Sprintf("%.1f", value)
	case abs >= 1:
		return fmt.Sprintf("%.2f", value)
	}
	return fmt.Sprintf("%.3f", value)
}

// group puts commas between thousands.
func group(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
