package report

import (
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/run"
)

// figure is something that runs are compared by.
type figure struct {
	name, unit string
	of         func(run.Figures) float64
}

// figures are what a process needs.
func figures() []figure {
	return []figure{
		{"CPU", "cores", func(f run.Figures) float64 { return f.CPU }},
		{"memory in use by Go", "B", func(f run.Figures) float64 { return f.InUse }},
		{"resident memory", "B", func(f run.Figures) float64 { return f.Resident }},
		{"received", "B/s", func(f run.Figures) float64 { return f.Received }},
		{"sent", "B/s", func(f run.Figures) float64 { return f.Sent }},
	}
}

// instances are the processes that do the operator's work, or wait for it.
func instances(result *run.Result) []run.Figures {
	return slices.DeleteFunc(slices.Clone(result.Processes), func(f run.Figures) bool { return !strings.HasPrefix(f.Name, fleet.Ring+"-") })
}

func process(result *run.Result, name string) (run.Figures, bool) {
	for _, f := range result.Processes {
		if f.Name == name {
			return f, true
		}
	}
	return run.Figures{}, false
}

func most(of []run.Figures, figure func(run.Figures) float64) float64 {
	value := 0.0
	for _, f := range of {
		value = max(value, figure(f))
	}
	return value
}

// sideBySide compares what the runs needed.
func (r *Report) sideBySide() section {
	s := section{title: "Side by side"}
	t := table{head: []string{"what is needed"}}
	for _, result := range r.Results {
		t.head = append(t.head, r.title(result))
	}
	add := func(name, unit string, of func(*run.Result) (float64, bool)) {
		row := []string{name}
		known := false
		for _, result := range r.Results {
			value, is := of(result)
			cell := "–"
			if is {
				cell, known = amount(value, unit), true
			}
			row = append(row, cell)
		}
		if known {
			t.rows = append(t.rows, row)
		}
	}
	for _, f := range figures() {
		add(f.name+" of the instance with most", f.unit, func(result *run.Result) (float64, bool) { return most(instances(result), f.of), true })
		all := " of all instances"
		if f.unit == "B" {
			all += ", on average"
		}
		add(f.name+all, f.unit, func(result *run.Result) (float64, bool) { return f.of(result.Together), true })
	}
	for _, name := range []string{fleet.Sharder, "kube-apiserver"} {
		for _, f := range figures()[:3] {
			add(f.name+" of "+name, f.unit, func(result *run.Result) (float64, bool) {
				found, is := process(result, name)
				return f.of(found), is && f.of(found) > 0
			})
		}
	}
	s.tables = append(s.tables, t)
	return s
}

// bySize compares what processes need with the number of Websites.
func (r *Report) bySize() section {
	s := section{title: "By the number of Websites"}
	t := table{head: []string{"", "Websites", "sharder: CPU", "sharder: memory in use by Go", "sharder: resident memory", "instance with most: CPU", "instance with most: memory in use by Go"}}
	charts := map[string]*chart{}
	first := map[string][]float64{}
	for _, result := range r.Results {
		of, is := process(result, fleet.Sharder)
		all := instances(result)
		row := []string{string(result.Setup), short(float64(result.Load.Initial))}
		values := []float64{of.CPU, of.InUse, of.Resident, most(all, figures()[0].of), most(all, figures()[1].of)}
		group := string(result.Setup)
		if first[group] == nil {
			first[group] = values
		}
		for i, value := range values {
			if i < 3 && !is {
				row = append(row, "–")
				continue
			}
			unit := "B"
			if i%3 == 0 {
				unit = "cores"
			}
			row = append(row, amount(value, unit)+" ("+times(value, first[group][i])+")")
		}
		t.rows = append(t.rows, row)
		for i, name := range []string{"sharder", "", "", "instance with most"} {
			if name == "" || i < 3 && !is {
				continue
			}
			point := point{float64(result.Load.Initial), values[i]}
			addPoint(charts, "CPU", "cores", name+", "+group, point)
			point.y = values[i+1]
			addPoint(charts, "memory in use by Go", "B", name+", "+group, point)
		}
	}
	s.text = append(s.text, "In brackets, compared with the first of the same setup.")
	s.tables = append(s.tables, t)
	for _, name := range sortedKeys(charts) {
		s.charts = append(s.charts, named{"size-" + strings.ReplaceAll(strings.ToLower(name), " ", "-") + ".svg", *charts[name]})
	}
	return s
}

// addPoint adds a point to a line of a chart.
func addPoint(charts map[string]*chart, name, unit, of string, at point) {
	c := charts[name]
	if c == nil {
		c = &chart{title: name + ", by the number of Websites", unit: unit, across: "Websites"}
		charts[name] = c
	}
	place := slices.IndexFunc(c.lines, func(l line) bool { return l.name == of })
	if place < 0 {
		place = len(c.lines)
		c.lines = append(c.lines, line{name: of})
	}
	c.lines[place].points = append(c.lines[place].points, at)
}
