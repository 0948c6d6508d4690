package report

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/stats"
)

// chart is a picture of values over time, or over a number.
type chart struct {
	title string
	// unit is that of the values: "", "s", "B", "B/s", "cores", "×" or "%". y is the title of their axis, title if it is empty.
	unit, y string
	lines   []line
	// limit is drawn as a dashed line, if it is above 0.
	limit float64
	// marks are times of events.
	marks []mark
	// across is the title of the x-axis. If it is empty, the axis is the time since the run began, and ends at until, so that all
	// charts of a run have the same axis.
	across string
	until  float64
}

type line struct {
	name   string
	points []point
}

// point has seconds since the run began, or a number, and a value. If high is above low, they are its range.
type point struct{ x, y, low, high float64 }

// rangePoint returns a point for the median and the range of several runs.
func rangePoint(x float64, spread stats.Spread) point {
	return point{x, spread.Median, spread.Min, spread.Max}
}

// add adds a point to the line with a name.
func (c *chart) add(name string, at point) {
	i := slices.IndexFunc(c.lines, func(l line) bool { return l.name == name })
	if i < 0 {
		i = len(c.lines)
		c.lines = append(c.lines, line{name: name})
	}
	c.lines[i].points = append(c.lines[i].points, at)
}

type mark struct {
	x    float64
	what string
}

const (
	width = 720.0
	// The plot is between these; below it are the axis' title and the legend's rows.
	left, right, top, floor = 104.0, width - 16, 34.0, 254.0
	row                     = 17.0
)

// colours differ in lightness too, for people who distinguish fewer colours. The second set is for dark backgrounds.
var (
	colours     = []string{"#0969da", "#bf3989", "#1a7f37", "#9a6700", "#8250df", "#cf222e", "#0e7490", "#57606a"}
	darkColours = []string{"#58a6ff", "#f778ba", "#56d364", "#e3b341", "#bc8cff", "#ff7b72", "#39c5cf", "#adbac7"}
)

// style returns the style sheet. Each picture has it, because it may be shown alone.
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

// scale is the range of a chart's values.
type scale struct{ x0, x1, y1 float64 }

func (c *chart) scale() scale {
	s := scale{x0: math.Inf(1), x1: math.Inf(-1), y1: c.limit * 1.1}
	if c.until > 0 {
		s.x0, s.x1 = 0, c.until
	}
	for _, l := range c.lines {
		for _, p := range l.points {
			s.x0, s.x1, s.y1 = min(s.x0, p.x), max(s.x1, p.x), max(s.y1, p.y, p.high)
		}
	}
	switch {
	case math.IsInf(s.x0, 0): // without points
		s.x0, s.x1 = 0, 1
	case s.x1 <= s.x0:
		s.x0, s.x1 = min(s.x0, 0), max(s.x0, 0)+1
	}
	unit := size(s.y1, c.unit)
	s.y1 = unit * roundUpTick(s.y1/unit)
	return s
}

// size returns the multiple of the unit in which a value is written, such as MiB.
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

// sizes are the multiples of bytes.
var sizes = []struct {
	size float64
	name string
}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}}

// roundUpTick returns a round number that is not smaller, and a quarter of which is round too.
func roundUpTick(value float64) float64 {
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

// svg returns the picture.
func (c *chart) svg() string {
	s := c.scale()
	keys := c.legend()
	height := floor + 44.0
	if n := len(keys); n > 0 {
		height = keys[n-1].y + 10
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(c.title))
	b.WriteString(style())
	fmt.Fprintf(&b, `<text x="%g" y="18" font-weight="600">%s</text>`, left, html.EscapeString(c.title))
	c.grid(&b, s)
	for _, m := range c.marks {
		x, _ := s.at(point{x: m.x})
		fmt.Fprintf(&b, `<line class="mark" x1="%.1f" x2="%.1f" y1="%g" y2="%g"><title>%s</title></line>`, x, x, top, floor, html.EscapeString(m.what))
	}
	if c.limit > 0 {
		_, y := s.at(point{y: c.limit})
		fmt.Fprintf(&b, `<line class="limit" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="soft" x="%g" y="%.1f" text-anchor="end">at most %s</text>`,
			left, right, y, y, right, y-4, amount(c.limit, c.unit))
	}
	for i, l := range c.lines {
		c.draw(&b, s, l, i)
	}
	for _, k := range keys {
		fmt.Fprintf(&b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%g" y2="%g" stroke-width="3"/><text class="soft" x="%.1f" y="%g">%s</text>`,
			lineClass(k.line), k.x, k.x+keyLine, k.y-4, k.y-4, k.x+keyLine+4, k.y, html.EscapeString(c.lines[k.line].name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// lineClass returns the class of a line: if there are more lines than colours, some are dashed.
func lineClass(line int) string {
	class := fmt.Sprint("c", line%len(colours))
	if line >= len(colours) {
		class += " gaps"
	}
	return class
}

func (c *chart) draw(b *strings.Builder, s scale, l line, number int) {
	fmt.Fprintf(b, `<polyline class="%s" points="`, lineClass(number))
	for _, p := range l.points {
		x, y := s.at(p)
		fmt.Fprintf(b, "%.1f,%.1f ", x, y)
	}
	fmt.Fprintf(b, `"><title>%s</title></polyline>`, html.EscapeString(l.name))
	if len(l.points) == 1 || c.across != "" {
		for _, p := range l.points {
			x, y := s.at(p)
			fmt.Fprintf(b, `<circle class="f%d" cx="%.1f" cy="%.1f" r="3"><title>%s</title></circle>`, number%len(colours), x, y, amount(p.y, c.unit))
			if p.high > p.low {
				_, low := s.at(point{y: p.low})
				_, high := s.at(point{y: p.high})
				fmt.Fprintf(b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke-width="1.2"><title>%s to %s</title></line>`,
					lineClass(number), x, x, low, high, amount(p.low, c.unit), amount(p.high, c.unit))
			}
		}
	}
}

const gridLines = 4

func (c *chart) grid(b *strings.Builder, s scale) {
	for i := range gridLines + 1 {
		value := s.y1 * float64(i) / gridLines
		_, y := s.at(point{y: value})
		fmt.Fprintf(b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="soft" x="%g" y="%.1f" text-anchor="end">%s</text>`,
			left, right, y, y, left-6, y+4, amount(value, c.unit))
	}
	c.axes(b)
	for _, value := range c.ticks(s) {
		x, _ := s.at(point{x: value})
		text := formatNumber(value)
		if c.across == "" {
			text = duration(value)
		}
		anchor := "middle"
		if x > right-20 { // it would exceed the picture
			anchor = "end"
		}
		fmt.Fprintf(b, `<text class="soft" x="%.1f" y="%g" text-anchor="%s">%s</text>`, x, floor+16, anchor, text)
	}
}

// axes writes the titles of the axes.
func (c *chart) axes(b *strings.Builder) {
	fmt.Fprintf(b, `<text class="soft" x="%g" y="%g" text-anchor="middle">%s</text>`, (left+right)/2, floor+33, html.EscapeString(cmp.Or(c.across, "time since the run began [min:s]"))) //nolint:mnd // the middle
	middle := (top + floor) / 2                                                                                                                                                          //nolint:mnd // the same
	fmt.Fprintf(b, `<text class="soft" x="14" y="%g" text-anchor="middle" transform="rotate(-90 14 %g)">%s</text>`, middle, middle, html.EscapeString(cmp.Or(c.y, c.title)))
}

// ticks returns the values that are written below the x-axis.
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

// key is an entry of the legend.
type key struct {
	line int
	x, y float64
}

// keyLine is the length of the line beside its name in the legend.
const keyLine = 14

// legend arranges the names of the lines in rows.
func (c *chart) legend() []key {
	const letter, gap = 6.6, 16
	var all []key
	x, y := left, floor+52
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

// duration formats a time since the run began.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d < time.Minute {
		return d.String()
	}
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// amount formats a value with its unit.
func amount(value float64, unit string) string {
	switch unit {
	case "B", "B/s":
		for _, size := range sizes {
			if value >= size.size {
				return formatNumber(value/size.size) + " " + size.name + strings.TrimPrefix(unit, "B")
			}
		}
		return formatNumber(value) + " " + unit
	case "s":
		if value > 0 && value < 0.9995 {
			return formatNumber(value*1000) + " ms"
		}
		return formatNumber(value) + " s"
	case "":
		return formatNumber(value)
	case "×", "%":
		return formatNumber(value) + unit
	}
	return formatNumber(value) + " " + unit
}

// Times formats a multiple of another value.
func Times(value, other float64) string {
	if other == 0 {
		return "–"
	}
	return formatNumber(value/other) + "×"
}

// short formats a number with three significant digits.
func formatNumber(value float64) string {
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

// group adds commas between thousands.
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
