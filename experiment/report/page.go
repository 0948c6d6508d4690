package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
	"github.com/ringmaster-project/ringmaster/experiment/run"
)

// About is what a report is about, besides its results.
type About struct {
	// Command is what was typed.
	Command string `json:"command"`
	// Machine, Versions and Parameters are names and values.
	Machine    [][2]string `json:"machine"`
	Versions   [][2]string `json:"versions"`
	Parameters [][2]string `json:"parameters"`
	// Cut is set when it was ended before its time.
	Cut bool `json:"cut,omitempty"`
}

// Report is what was found.
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
	charts []named
}

type named struct {
	file string
	chart
}

// table has cells that are plain text.
type table struct {
	head []string
	rows [][]string
}

// title names a run among the others.
func (r *Report) title(of *run.Result) string {
	title := fmt.Sprintf("%s, %d×", of.Setup, of.Instances)
	if r.sizes() {
		title += fmt.Sprintf(", %s Websites", short(float64(of.Load.Initial)))
	}
	return title
}

// sizes tells whether runs differ in the number of Websites to begin with, and not because of their instances.
func (r *Report) sizes() bool {
	for _, result := range r.Results {
		first := r.Results[0]
		if result.Instances == first.Instances && result.Load.Initial != first.Load.Initial {
			return true
		}
	}
	return false
}

func (r *Report) sections() []section {
	all := []section{r.verdicts(), r.generator(), r.sideBySide(), r.needs(), r.ownership()}
	if r.sizes() {
		all = append([]section{r.bySize()}, all...)
	}
	if capacity, is := r.capacity(); is {
		all = append([]section{capacity}, all...)
	}
	for _, result := range r.Results {
		all = append(all, r.pictures(result))
	}
	return append(all, r.conditions())
}

func verdict(holds bool) string {
	if holds {
		return "✓ holds"
	}
	return "✗ does not hold"
}

// took is what was measured: not more than is known.
func took(v run.Verdict) string {
	if !v.Coarse || *v.Value <= 0 {
		return amount(*v.Value, "s")
	}
	upper := math.Pow10(int(math.Ceil(math.Log10(*v.Value))))
	return amount(upper/10, "s") + " to " + amount(upper, "s") //nolint:mnd // the limits are powers of ten
}

func (r *Report) verdicts() section {
	s := section{title: "Objectives"}
	t := table{head: []string{"for 99 of 100", "at most"}}
	for _, result := range r.Results {
		t.head = append(t.head, r.title(result))
	}
	for i, objective := range run.Objectives() {
		row := []string{objective.Name, amount(objective.Limit, "s")}
		for _, result := range r.Results {
			v := result.Verdicts[i]
			if v.Value == nil {
				row = append(row, "✗ was not measured")
				continue
			}
			row = append(row, took(v)+" "+verdict(v.Holds))
		}
		t.rows = append(t.rows, row)
	}
	doubles := []string{"reconciles of one Website by two instances at a time", "0"}
	for _, result := range r.Results {
		doubles = append(doubles, fmt.Sprintf("%d of %s %s", len(result.Doubles), short(float64(result.Reconciles)), verdict(len(result.Doubles) == 0)))
	}
	t.rows = append(t.rows, doubles)
	s.tables = append(s.tables, t)
	s.text = append(s.text, "How long something was in a queue is known in powers of ten only. The last line counts what the operator did: a reconcile of a Website that the instance does not have, such as one that was deleted, ends before that.")
	for _, result := range r.Results {
		const few = 5
		for _, double := range result.Doubles[:min(few, len(result.Doubles))] {
			s.text = append(s.text, r.title(result)+": "+double)
		}
	}
	return s
}

func (r *Report) generator() section {
	s := section{title: "The load"}
	t := table{head: []string{"", "operations, done / planned", "failed", "late by, 99 of 100", "machine at work", "kept its promise"}}
	for _, result := range r.Results {
		g := result.Generator
		kept := "✓ yes"
		if !g.Kept() {
			kept = "✗ no"
			s.text = append(s.text, fmt.Sprintf("%s: the users could not do what was promised in time: %s", r.title(result), whyNot(g)))
		}
		if g.Crowded() {
			s.text = append(s.text, fmt.Sprintf("%s: this machine was at work for %.0f %% of the time: what was measured is its limit as well as the system's.", r.title(result), 100*g.Busy))
		}
		t.rows = append(t.rows, []string{
			r.title(result), short(g.Done) + " / " + short(g.Planned), short(g.Failed), amount(g.Late, "s"), fmt.Sprintf("%.0f %%", 100*g.Busy), kept,
		})
		if result.Interrupted {
			s.text = append(s.text, r.title(result)+": it was ended after "+result.End.Sub(result.Begin).Round(time.Second).String()+", before its time.")
		}
		if result.Unreached > 0 {
			s.text = append(s.text, fmt.Sprintf("%s: the API server could not reach the sharder's webhook %s times, and went on without: those Websites waited for the sharder to find them.",
				r.title(result), short(result.Unreached)))
		}
		for _, trouble := range result.Troubles {
			s.text = append(s.text, r.title(result)+": not all could be done or measured: "+trouble)
		}
	}
	s.tables = append(s.tables, t)
	return s
}

// whyNot tells why users could not do what was promised.
func whyNot(g run.Generator) string {
	switch {
	case len(g.Failures) > 0:
		return fmt.Sprintf("%s operations failed, such as: %s", short(g.Failed), strings.Join(g.Failures, "; "))
	case g.Retried >= 1:
		return fmt.Sprintf("the API server was away, %s requests were sent again.", short(g.Retried))
	}
	if g.Crowded() {
		return "this machine, and not the system, was the limit. Choose a smaller --scale."
	}
	return fmt.Sprintf("their requests took up to %s. Choose a smaller --scale.", amount(g.Took, "s"))
}

func (r *Report) needs() section {
	s := section{title: "What the processes needed"}
	s.text = append(s.text, "CPU on average, while the process was there, and at most over a minute; memory at most; what is read and written each second, files such as logs included.")
	for _, result := range r.Results {
		t := table{head: []string{r.title(result), "CPU", "peak", "in use by Go", "resident", "received", "sent", "reconciles", "API requests"}}
		for _, p := range result.Processes {
			inUse := "–"
			if p.InUse > 0 {
				inUse = amount(p.InUse, "B")
			}
			t.rows = append(t.rows, []string{
				p.Name, amount(p.CPU, "cores"), amount(p.CPUPeak, "cores"), inUse, amount(p.Resident, "B"), amount(p.Received, "B/s"), amount(p.Sent, "B/s"),
				dash(p.Reconciles), requests(p.Requests),
			})
		}
		s.tables = append(s.tables, t)
	}
	t := table{head: []string{"requests to the API server, of everybody"}}
	verbs := []string{"GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}
	t.head = append(t.head, verbs...)
	for _, result := range r.Results {
		row := []string{r.title(result)}
		for _, verb := range verbs {
			row = append(row, dash(result.Requests[verb]))
		}
		t.rows = append(t.rows, row)
	}
	s.tables = append(s.tables, t)
	return s
}

func (r *Report) ownership() section {
	s := section{title: "Who had the Websites"}
	t := table{head: []string{"", "without a live instance, at most", "… altogether", "moves", "writes per move"}}
	for _, result := range r.Results {
		if !result.Setup.Sharded() {
			continue
		}
		o := result.Ownership
		writes := "–"
		if o.Moves >= 1 {
			writes = short(o.WritesPerMove())
		}
		t.rows = append(t.rows, []string{r.title(result), short(o.Ownerless), short(o.OwnerlessSeconds) + " s × Websites", dash(o.Moves), writes})
	}
	if len(t.rows) == 0 {
		s.text = append(s.text, "The one that leads has all of them.")
		return s
	}
	s.tables = append(s.tables, t)
	return s
}

func dash(value float64) string {
	if value == 0 {
		return "–"
	}
	return group(fmt.Sprintf("%.0f", value))
}

func requests(by map[string]float64) string {
	var all []string
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		if by[method] >= 1 {
			all = append(all, fmt.Sprintf("%s %s", method, dash(by[method])))
		}
	}
	if len(all) == 0 {
		return "–"
	}
	return strings.Join(all, ", ")
}

// capacity is what one more instance is worth, if that was looked for.
func (r *Report) capacity() (section, bool) {
	s := section{title: "Capacity"}
	t := table{head: []string{"", "Websites", "changes each second", "Websites, compared with the first of its setup", "what gave way first"}}
	lines := map[string]*line{}
	first, found := map[string]float64{}, false
	for _, result := range r.Results {
		name := string(result.Setup)
		if result.Capacity == nil {
			t.rows = append(t.rows, []string{r.title(result), "–", "–", "–", "not borne from the beginning on"})
			continue
		}
		found = true
		if first[name] == 0 {
			first[name] = result.Capacity.Objects
		}
		if lines[name] == nil {
			lines[name] = &line{name: name}
		}
		lines[name].points = append(lines[name].points, point{float64(result.Instances), result.Capacity.Objects})
		gaveWay := result.Capacity.GaveWay
		if gaveWay == "" {
			gaveWay = "nothing until the end: it may be more"
		}
		t.rows = append(t.rows, []string{
			r.title(result), short(result.Capacity.Objects), short(result.Capacity.Changes), times(result.Capacity.Objects, first[name]), gaveWay,
		})
	}
	if !found {
		return s, false
	}
	s.text = append(s.text, "The largest load at which all objectives still held over two minutes. It was made larger until one of them did not, which is what the verdicts below tell.")
	s.tables = append(s.tables, t)
	c := chart{title: "Websites that are borne, by instances", across: "instances"}
	for _, name := range sortedKeys(lines) {
		c.lines = append(c.lines, *lines[name])
	}
	s.charts = append(s.charts, named{"capacity.svg", c})
	return s, true
}

func (r *Report) conditions() section {
	s := section{title: "How this was measured"}
	s.text = append(s.text, "With "+code(r.Command)+".")
	t := table{head: []string{"what", "value"}}
	for _, of := range [][][2]string{r.Machine, r.Versions, r.Parameters} {
		for _, pair := range of {
			t.rows = append(t.rows, []string{pair[0], pair[1]})
		}
	}
	runs := table{head: []string{"run", "begun", "lasts", "workers", "Websites at first", "created each second", "deleted each second", "each is changed every"}}
	for _, result := range r.Results {
		workers := "the operator's choice"
		if result.Workers > 0 {
			workers = strconv.Itoa(result.Workers)
		}
		runs.rows = append(runs.rows, []string{
			r.title(result), result.Begin.Format(time.RFC3339), result.Lasts.String(), workers, short(float64(result.Load.Initial)), short(result.Load.Create),
			short(result.Load.Delete), result.Load.ChangeEvery.String(),
		})
	}
	s.tables = append(s.tables, t, runs)
	return s
}

// code is what is shown as it is typed.
func code(text string) string { return "`" + text + "`" }

// pictures are what is to be seen of a run over time.
func (r *Report) pictures(result *run.Result) section {
	s := section{title: r.title(result)}
	prefix := fmt.Sprintf("%s-%d-%d-", result.Setup, result.Instances, result.Load.Initial)
	add := func(file string, c chart) {
		c.until = result.End.Sub(result.Begin).Seconds()
		for _, event := range result.Events {
			if !event.Meant {
				continue
			}
			c.marks = append(c.marks, mark{event.At.Sub(result.Begin).Seconds(), event.What})
		}
		s.charts = append(s.charts, named{prefix + file + ".svg", c})
	}
	of := func(name string, by string) []line { return lines(result, name, by) }
	add("load", chart{title: "Websites", lines: append(label("all", of("objects", "")), label("not yet as they were wanted", of("waiting", ""))...)})
	add("changes", chart{title: "changes each second", lines: of("changes", "")})
	for i, v := range result.Verdicts {
		add(fmt.Sprint("objective-", i+1), chart{title: v.Name + ", 99 of 100", unit: "s", limit: v.Limit, lines: of(fmt.Sprint("objective", i), "")})
	}
	for _, kind := range []struct{ name, what, unit string }{
		{"cpu", "CPU", "cores"}, {"inUse", "memory in use by Go", "B"}, {"resident", "resident memory", "B"}, {"received", "received", "B/s"}, {"sent", "sent", "B/s"},
	} {
		ours, others := split(of(kind.name, measure.LabelProcess))
		add(kind.name, chart{title: kind.what + ", by process", unit: kind.unit, lines: ours})
		if len(others) > 0 {
			add(kind.name+"-kubernetes", chart{title: kind.what + ", Kubernetes", unit: kind.unit, lines: others})
		}
	}
	add("reconciles", chart{title: "reconciles each second, by instance", lines: of("reconciles", measure.LabelProcess)})
	add("requests", chart{title: "requests to the API server each second, by verb", lines: of("requests", "verb")})
	if result.Setup.Sharded() {
		add("owners", chart{title: "Websites by instance", lines: append(of("owned", "instance"), label("none", of("ownerless", ""))...)})
		add("moves", chart{title: "moves of Websites so far", lines: of("moves", "")})
	}
	const most = 20
	for i, event := range result.Events {
		if i == most {
			s.text = append(s.text, fmt.Sprintf("… and %d more, in results.json", len(result.Events)-most))
			break
		}
		s.text = append(s.text, duration(event.At.Sub(result.Begin).Seconds())+": "+event.What)
	}
	return s
}

// split tells our processes from those of Kubernetes.
func split(all []line) (ours, others []line) {
	for _, l := range all {
		if l.name == fleet.Sharder || strings.HasPrefix(l.name, fleet.Ring+"-") {
			ours = append(ours, l)
		} else {
			others = append(others, l)
		}
	}
	return ours, others
}

// lines are those of a chart, named by a label.
func lines(result *run.Result, name, by string) []line {
	var all []line
	for _, found := range result.Charts[name] {
		l := line{name: found.Labels[by]}
		if l.name == run.Machine || l.name == load.Process {
			continue
		}
		for _, p := range found.Points {
			if p.Value == p.Value && p.Value < 1e30 { // it is a number
				l.points = append(l.points, point{p.At.Sub(result.Begin).Seconds(), p.Value})
			}
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b line) int { return strings.Compare(a.name, b.name) })
	return all
}

func label(name string, of []line) []line {
	for i := range of {
		of[i].name = name
	}
	return of
}
