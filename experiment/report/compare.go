package report

import (
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/internal/stats"
)

// figure is something that runs are compared by.
type figure struct {
	name, unit string
	of         func(run.Figures) float64
}

// figures returns the usage of a process.
func figures() []figure {
	return []figure{
		{"CPU", "cores", CPU},
		{"heap in use", "B", HeapInUse},
		{"resident memory", "B", Resident},
		{"received", "B/s", Received},
		{"sent", "B/s", Sent},
		{"live heap", "B", LiveHeap},
	}
}

// CPU returns the cores that a process has used on average.
func CPU(f run.Figures) float64 { return f.CPU }

// HeapInUse returns the maximum of Go's heap in use.
func HeapInUse(f run.Figures) float64 { return f.InUse }

// LiveHeap returns Go's heap after a garbage collection at the end.
func LiveHeap(f run.Figures) float64 { return f.LiveHeap }

// Resident returns the maximum of the resident memory.
func Resident(f run.Figures) float64 { return f.Resident }

// Received returns the bytes that a process has read per second.
func Received(f run.Figures) float64 { return f.Received }

// Sent returns the bytes that a process has written per second.
func Sent(f run.Figures) float64 { return f.Sent }

// The processes of Kubernetes.
const (
	APIServer = "kube-apiserver"
	Etcd      = "etcd"
)

// Instances returns the processes of the operator, the one with most reconciles first.
func Instances(result *run.Result) []run.Figures {
	all := slices.DeleteFunc(slices.Clone(result.Processes), func(f run.Figures) bool { return !strings.HasPrefix(f.Name, fleet.Ring+"-") })
	slices.SortStableFunc(all, func(a, b run.Figures) int { return int(b.Reconciles - a.Reconciles) })
	return all
}

// Process returns the usage of a process.
func Process(result *run.Result, name string) (run.Figures, bool) {
	for _, f := range result.Processes {
		if f.Name == name {
			return f, true
		}
	}
	return run.Figures{}, false
}

// Highest returns the highest value of a figure among the instances of a run.
func Highest(figure func(run.Figures) float64) func(*run.Result) (float64, bool) {
	return func(result *run.Result) (float64, bool) {
		value := 0.0
		for _, f := range Instances(result) {
			value = max(value, figure(f))
		}
		return value, value > 0
	}
}

// Leader returns a figure of the instance that has reconciled most: the leader, if there is one.
func Leader(figure func(run.Figures) float64) func(*run.Result) (float64, bool) {
	return func(result *run.Result) (float64, bool) {
		all := Instances(result)
		if len(all) == 0 {
			return 0, false
		}
		return figure(all[0]), figure(all[0]) > 0
	}
}

// Standby returns the highest value of a figure among the instances that have reconciled nothing.
func Standby(figure func(run.Figures) float64) func(*run.Result) (float64, bool) {
	return func(result *run.Result) (float64, bool) {
		value := 0.0
		for _, f := range Instances(result) {
			if f.Reconciles < 1 {
				value = max(value, figure(f))
			}
		}
		return value, value > 0
	}
}

// sideBySide compares the usage of all configurations.
func (r *Report) sideBySide() section {
	s := section{title: "Side by side"}
	t := table{head: []string{"usage"}}
	groups := r.Groups()
	for _, group := range groups {
		t.head = append(t.head, group.Title)
	}
	add := func(name, unit string, value func(Group) stats.Spread) {
		row := []string{name}
		known := false
		for _, group := range groups {
			found := value(group)
			row, known = append(row, Format(found, unit)), known || found.Runs > 0
		}
		if known {
			t.rows = append(t.rows, row)
		}
	}
	for _, f := range figures() {
		add("instance with the highest "+f.name, f.unit, func(group Group) stats.Spread { return group.Spread(Highest(f.of)) })
		if f.name == "live heap" { // of the instances that still run at the end
			continue
		}
		all := "all instances: " + f.name
		if f.unit == "B" {
			all += ", on average"
		}
		add(all, f.unit, func(group Group) stats.Spread {
			return group.Spread(func(result *run.Result) (float64, bool) { return f.of(result.Together), f.of(result.Together) > 0 })
		})
	}
	for _, name := range []string{fleet.Sharder, APIServer, Etcd} {
		for _, f := range figures()[:3] {
			add(name+": "+f.name, f.unit, func(group Group) stats.Spread { return group.Usage(name, f.of) })
		}
	}
	if len(r.Results) > len(groups) {
		s.text = append(s.text, "The median of all runs, and their range.")
	}
	s.tables = append(s.tables, t)
	return s
}

// bySize compares the usage by the number of Websites.
func (r *Report) bySize() section {
	s := section{title: "By the number of Websites"}
	t := table{head: []string{"", "Websites"}}
	columns := []struct {
		name, unit string
		of         func(Group) stats.Spread
	}{
		{"sharder: CPU", "cores", func(g Group) stats.Spread { return g.Usage(fleet.Sharder, CPU) }},
		{"sharder: heap in use", "B", func(g Group) stats.Spread { return g.Usage(fleet.Sharder, HeapInUse) }},
		{"sharder: resident memory", "B", func(g Group) stats.Spread { return g.Usage(fleet.Sharder, Resident) }},
		{"busiest instance: CPU", "cores", func(g Group) stats.Spread { return g.Spread(Highest(CPU)) }},
		{"largest instance: heap in use", "B", func(g Group) stats.Spread { return g.Spread(Highest(HeapInUse)) }},
	}
	charts := map[string]*chart{
		"B":     {title: "Memory by number of Websites", unit: "B", across: "Websites", y: "Go heap in use, at most"},
		"cores": {title: "CPU by number of Websites", unit: "cores", across: "Websites", y: "CPU, on average [cores]"},
	}
	for _, column := range columns {
		t.head = append(t.head, column.name)
	}
	first := map[string]Group{}
	for _, group := range r.Groups() {
		setup := string(group.First().Setup)
		if _, ok := first[setup]; !ok {
			first[setup] = group
		}
		row := []string{setup, formatNumber(float64(group.First().Load.Initial))}
		for _, column := range columns {
			found, reference := column.of(group), column.of(first[setup])
			if found.Runs == 0 {
				row = append(row, "–")
				continue
			}
			row = append(row, Format(found, column.unit)+", "+Times(found.Median, reference.Median))
			if !strings.Contains(column.name, "resident") {
				charts[column.unit].add(strings.Split(column.name, ":")[0]+", "+setup, rangePoint(float64(group.First().Load.Initial), found))
			}
		}
		t.rows = append(t.rows, row)
	}
	s.text = append(s.text, "The multiple is that of the first row with the same setup.")
	s.tables = append(s.tables, t)
	for unit, file := range map[string]string{"cores": "size-cpu.svg", "B": "size-memory.svg"} {
		s.charts = append(s.charts, namedChart{file, *charts[unit]})
	}
	slices.SortFunc(s.charts, func(a, b namedChart) int { return strings.Compare(a.file, b.file) })
	return s
}

// CapacityRatios returns the capacity of a group as a multiple of another one's, for each repetition by itself.
func CapacityRatios(group, reference Group) stats.Spread {
	return group.Spread(func(result *run.Result) (float64, bool) {
		i := slices.IndexFunc(reference.Results, func(other *run.Result) bool { return other.Repeat == result.Repeat })
		if i < 0 || result.Capacity == nil || reference.Results[i].Capacity == nil {
			return 0, false
		}
		return result.Capacity.Objects / reference.Results[i].Capacity.Objects, true
	})
}

// CapacityOf returns the number of Websites, or of changes per second, that a run has sustained.
func CapacityOf(figure func(*run.Capacity) float64) func(*run.Result) (float64, bool) {
	return func(result *run.Result) (float64, bool) {
		if result.Capacity == nil {
			return 0, false
		}
		return figure(result.Capacity), true
	}
}

// capacity compares the loads that were sustained, if the scenario has a ramp.
func (r *Report) capacity() (section, bool) {
	s := section{title: "Capacity"}
	t := table{head: []string{"", "runs", "Websites", "changes per second", "Websites, as a multiple of the first", "first objective that did not hold"}}
	c := chart{title: "Websites sustained by number of instances", across: "instances", y: "Websites sustained"}
	first, found := map[string]Group{}, false
	for _, group := range r.Groups() {
		setup := string(group.First().Setup)
		objects := group.Spread(CapacityOf(func(c *run.Capacity) float64 { return c.Objects }))
		if objects.Runs == 0 {
			t.rows = append(t.rows, []string{group.Title, "0", "–", "–", "–", "an objective does not hold at the initial load"})
			continue
		}
		found = true
		if _, ok := first[setup]; !ok {
			first[setup] = group
		}
		c.add(setup, rangePoint(float64(group.First().Instances), objects))
		t.rows = append(t.rows, []string{
			group.Title, formatNumber(float64(objects.Runs)), Format(objects, ""),
			Format(group.Spread(CapacityOf(func(c *run.Capacity) float64 { return c.Changes })), ""),
			Format(CapacityRatios(group, first[setup]), "×"), Limits(group),
		})
	}
	if !found {
		return s, false
	}
	s.text = append(s.text, "The highest load at which all objectives held over two minutes, as a median with its range if there are several runs. The load grew until an objective did not hold, which the verdicts below show.")
	s.tables = append(s.tables, t)
	s.charts = append(s.charts, namedChart{"capacity.svg", c})
	return s, true
}

// Limits returns the objectives that ended the ramps of a group.
func Limits(group Group) string {
	var all []string
	for _, result := range group.Results {
		if result.Capacity == nil {
			continue
		}
		limit, _, _ := strings.Cut(result.Capacity.Limit, ":")
		if limit == "" {
			limit = "none until the end: the capacity may be higher"
		}
		if !slices.Contains(all, limit) {
			all = append(all, limit)
		}
	}
	return strings.Join(all, "; ")
}
