package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
	"github.com/ringmaster-project/ringmaster/experiment/run"
)

// filePrefix starts the names of a run's files.
func filePrefix(result *run.Result) string {
	prefix := fmt.Sprintf("%s-%d-%d-", result.Setup, result.Instances, result.Load.Initial)
	if result.Repeat > 0 {
		prefix += fmt.Sprintf("run%d-", result.Repeat)
	}
	return prefix
}

// charts returns the charts of a run over time.
func (r *Report) charts(result *run.Result) section {
	s := section{title: r.title(result), details: true}
	add := func(file string, c chart) {
		c.until = result.End.Sub(result.Begin).Seconds()
		for _, event := range result.Events {
			if event.Planned {
				c.marks = append(c.marks, mark{event.At.Sub(result.Begin).Seconds(), event.Description})
			}
		}
		s.charts = append(s.charts, namedChart{filePrefix(result) + file + ".svg", c})
	}
	linesOf := func(name string, by string) []line { return lines(result, name, by) }
	add("load", chart{title: "Websites", lines: append(label("all", linesOf("objects", "")), label("not Ready", linesOf("waiting", ""))...)})
	add("changes", chart{title: "Changes per second", lines: linesOf("changes", "")})
	for i, v := range result.Verdicts {
		add(fmt.Sprint("objective-", i+1), chart{title: v.Name + ", p99", y: "p99", unit: "s", limit: v.Limit, lines: linesOf(fmt.Sprint("objective", i), "")})
	}
	for _, kind := range []struct{ name, title, y, unit string }{
		{"cpu", "CPU", "CPU [cores]", "cores"},
		{"inUse", "Go heap in use", "", "B"},
		{"resident", "Resident memory", "", "B"},
		{"received", "Received", "bytes read per second", "B/s"},
		{"sent", "Sent", "bytes written per second", "B/s"},
	} {
		operator, others := split(linesOf(kind.name, measure.LabelProcess))
		add(kind.name, chart{title: kind.title + ", by process", y: kind.y, unit: kind.unit, lines: operator})
		if len(others) > 0 {
			add(kind.name+"-kubernetes", chart{title: kind.title + ", Kubernetes", y: kind.y, unit: kind.unit, lines: others})
		}
	}
	add("reconciles", chart{title: "Reconciles per second, by instance", y: "reconciles per second", lines: linesOf("reconciles", measure.LabelProcess)})
	add("requests", chart{title: "Requests to the API server per second, by verb", y: "requests per second", lines: linesOf("requests", "verb")})
	if result.Setup.Sharded() {
		add("owners", chart{title: "Websites by owner", y: "Websites", lines: append(linesOf("owned", "instance"), label("no live owner", linesOf("ownerless", ""))...)})
		add("moves", chart{title: "Moves of Websites so far", y: "moves", lines: linesOf("moves", "")})
	}
	const maxEvents = 20
	for i, event := range result.Events {
		if i == maxEvents {
			s.text = append(s.text, fmt.Sprintf("… and %d more, in results.json", len(result.Events)-maxEvents))
			break
		}
		s.text = append(s.text, duration(event.At.Sub(result.Begin).Seconds())+": "+event.Description)
	}
	return s
}

// split separates the operator and the sharder from the processes of Kubernetes.
func split(all []line) (operator, others []line) {
	for _, l := range all {
		if l.name == fleet.Sharder || strings.HasPrefix(l.name, fleet.Ring+"-") {
			operator = append(operator, l)
		} else {
			others = append(others, l)
		}
	}
	return operator, others
}

// lines returns the lines of a chart, named by a label.
func lines(result *run.Result, name, label string) []line {
	var all []line
	for _, found := range result.Charts[name] {
		l := line{name: found.Labels[label]}
		if l.name == run.Machine || l.name == load.Process {
			continue
		}
		for _, p := range found.Points {
			if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
				l.points = append(l.points, point{x: p.At.Sub(result.Begin).Seconds(), y: p.Value})
			}
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b line) int { return strings.Compare(a.name, b.name) })
	return all
}

func label(name string, all []line) []line {
	for i := range all {
		all[i].name = name
	}
	return all
}
