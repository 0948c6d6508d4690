package report

import (
	"fmt"
	"strings"

	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/internal/stats"
)

// About is the context of a report.
type About struct {
	// Command repeats the experiment. It has no flags with paths or addresses of a machine.
	Command string `json:"command"`
	// Machine, Versions and Parameters are names and values.
	Machine    [][2]string `json:"machine"`
	Versions   [][2]string `json:"versions"`
	Parameters [][2]string `json:"parameters"`
	// Interrupted is set if the experiment ended early.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Report is the result of an experiment.
type Report struct {
	About
	Scenario string        `json:"scenario"`
	Results  []*run.Result `json:"results"`
}

// section is a part of the report.
type section struct {
	title  string
	text   []string
	tables []table
	charts []namedChart
	// details is set if the section is about single runs, and not part of a summary.
	details bool
}

type namedChart struct {
	file string
	chart
}

// table has cells that are plain text.
type table struct {
	head []string
	rows [][]string
}

// Group is all runs of one configuration.
type Group struct {
	Title   string
	Results []*run.Result
}

// Groups returns the runs by configuration, in the order of their first run.
func (r *Report) Groups() []Group {
	var groups []Group
	index := map[string]int{}
	for _, result := range r.Results {
		title := r.configuration(result)
		i, known := index[title]
		if !known {
			i = len(groups)
			index[title] = i
			groups = append(groups, Group{Title: title})
		}
		groups[i].Results = append(groups[i].Results, result)
	}
	return groups
}

// First returns the first run of the group, for what is the same in all of them.
func (g Group) First() *run.Result { return g.Results[0] }

// Spread returns the median and the range of a figure over the runs of the group. Runs without the figure do not count.
func (g Group) Spread(get func(*run.Result) (value float64, known bool)) stats.Spread {
	var values []float64
	for _, result := range g.Results {
		if value, known := get(result); known {
			values = append(values, value)
		}
	}
	return stats.Summarize(values)
}

// Usage returns the median and the range of a figure of a process.
func (g Group) Usage(name string, value func(run.Figures) float64) stats.Spread {
	return g.Spread(func(result *run.Result) (float64, bool) {
		found, ok := Process(result, name)
		return value(found), ok && value(found) > 0
	})
}

// configuration describes the configuration of a run, which its repetitions share.
func (r *Report) configuration(result *run.Result) string {
	title := fmt.Sprintf("%s, %d×", result.Setup, result.Instances)
	if r.sizes() {
		title += fmt.Sprintf(", %s Websites", formatNumber(float64(result.Load.Initial)))
	}
	return title
}

// title identifies a run.
func (r *Report) title(result *run.Result) string {
	if result.Repeat > 0 {
		return fmt.Sprintf("%s, run %d", r.configuration(result), result.Repeat)
	}
	return r.configuration(result)
}

// sizes reports whether runs with the same number of instances have different numbers of initial Websites.
func (r *Report) sizes() bool {
	for _, result := range r.Results {
		first := r.Results[0]
		if result.Instances == first.Instances && result.Load.Initial != first.Load.Initial {
			return true
		}
	}
	return false
}

// sections returns the whole report.
func (r *Report) sections() []section {
	all := []section{r.objectives(), r.validity(), r.latencies(), r.recovery(), r.sideBySide(), r.usage(), r.ownership()}
	if r.sizes() {
		all = append([]section{r.bySize()}, all...)
	}
	if capacity, ok := r.capacity(); ok {
		all = append([]section{capacity}, all...)
	}
	for _, result := range r.Results {
		all = append(all, r.charts(result))
	}
	return append(all, r.conditions())
}

// Format formats a median, and the range if there are several runs.
func Format(s stats.Spread, unit string) string {
	switch s.Runs {
	case 0:
		return "–"
	case 1:
		return amount(s.Median, unit)
	}
	low, high := amount(s.Min, unit), amount(s.Max, unit)
	if number, of, ok := strings.Cut(low, " "); ok && strings.HasSuffix(high, " "+of) {
		low = number // the unit is that of the highest value
	}
	return fmt.Sprintf("%s (%s to %s)", amount(s.Median, unit), low, high)
}

// Share formats the median of a figure as a share of that of another one.
func Share(spread, reference stats.Spread) string {
	if spread.Runs == 0 || reference.Median <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", spread.Median/reference.Median)
}

// Count formats a number of objects.
func Count(n int) string { return formatNumber(float64(n)) }

// FormatLatency formats the quantiles and the maximum of the latency with a name.
func FormatLatency(group Group, latencies func(*run.Result) []run.Latency, name string) string {
	for _, latency := range merge(group, latencies) {
		if latency.Name == name {
			return fmt.Sprintf("%s, %s, %s", amount(latency.P50, "s"), amount(latency.P99, "s"), maximum(latency))
		}
	}
	return "–"
}
