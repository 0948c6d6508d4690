package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/report"
	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/internal/stats"
)

// reports returns the report with a name, nil if it does not exist.
type reports = func(name string) (*report.Report, error)

// writers return the content of a block, empty if its results do not exist.
var writers = map[string]func(reports) (string, error){
	"headline": headline, "capacity": of("capacity", capacity), "size": of("size", size), "setups": of("setups", setups),
	"capacity-ratio": of("capacity", capacityRatio), "control-plane": of("setups", controlPlane), "share": of("setups", share), "disturbances": disturbances, "conditions": conditions,
}

// of returns a writer for the results of one report.
func of(name string, write func(*report.Report) string) func(reports) (string, error) {
	return func(results reports) (string, error) {
		r, err := results(name)
		if err != nil || r == nil {
			return "", err
		}
		return write(r), nil
	}
}

func table(head []string, rows [][]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat(" --- |", len(head)))
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}

func command(r *report.Report) string { return "`" + r.Command + "`" }

func objects(c *run.Capacity) float64 { return c.Objects }
func changes(c *run.Capacity) float64 { return c.Changes }

func busy(c *run.Capacity) float64 { return 100 * c.Busy }

// unreached returns the number of runs whose load did not reach the capacity, which may be higher.
func unreached(group report.Group) (n int) {
	for _, result := range group.Results {
		if result.Capacity != nil && result.Capacity.Limit == "" {
			n++
		}
	}
	return n
}

func capacity(r *report.Report) string {
	groups := r.Groups()
	var rows [][]string
	for _, group := range groups {
		websites := group.Spread(report.CapacityOf(objects))
		rows = append(rows, []string{
			strconv.Itoa(group.First().Instances), strconv.Itoa(websites.Runs), report.Format(websites, ""),
			report.Format(group.Spread(report.CapacityOf(changes)), ""), report.Format(report.CapacityRatios(group, groups[0]), "×"),
			report.Format(group.Spread(report.CapacityOf(busy)), "%"), report.Limits(group),
		})
	}
	return command(r) + "\n\n![Websites sustained by number of instances](../pictures/capacity.svg)\n\n" +
		table([]string{"instances", "runs", "Websites sustained", "changes/s", "× one instance", "machine's CPU", "first objective that did not hold"}, rows)
}

// capacityRatio is the capacity of most instances, as a multiple of that of one.
func capacityRatio(r *report.Report) string {
	groups := r.Groups()
	return report.Format(report.CapacityRatios(groups[len(groups)-1], groups[0]), "×")
}

func size(r *report.Report) string {
	var rows [][]string
	groups := r.Groups()
	multiple := func(spread, first stats.Spread, unit string) string {
		return report.Format(spread, unit) + ", " + report.Times(spread.Median, first.Median)
	}
	for _, group := range groups {
		row := []string{report.Count(group.First().Load.Initial)}
		for _, figure := range []struct {
			unit string
			of   func(report.Group) stats.Spread
		}{
			{"cores", func(g report.Group) stats.Spread { return g.Usage(fleet.Sharder, report.CPU) }},
			{"B", func(g report.Group) stats.Spread { return g.Usage(fleet.Sharder, report.HeapInUse) }},
			{"B", func(g report.Group) stats.Spread { return g.Usage(fleet.Sharder, report.Resident) }},
			{"cores", func(g report.Group) stats.Spread { return g.Spread(report.Highest(report.CPU)) }},
			{"B", func(g report.Group) stats.Spread { return g.Spread(report.Highest(report.LiveHeap)) }},
		} {
			row = append(row, multiple(figure.of(group), figure.of(groups[0]), figure.unit))
		}
		rows = append(rows, row)
	}
	return command(r) + "\n\n" + table([]string{"Websites", "sharder: CPU", "heap in use", "resident", "busiest instance: CPU", "live heap"}, rows)
}

// columns are the usage of an instance.
var columns = []struct {
	name, unit string
	of         func(run.Figures) float64
}{
	{"CPU", "cores", report.CPU},
	{"live heap", "B", report.LiveHeap},
	{"heap in use, at most", "B", report.HeapInUse},
	{"resident memory, at most", "B", report.Resident},
	{"received", "B/s", report.Received},
	{"sent", "B/s", report.Sent},
}

func setups(r *report.Report) string {
	groups := r.Groups()
	lead := groups[0]
	head, rows := []string{"", "lead: the leader", "lead: a standby"}, [][]string{}
	for _, group := range groups[1:] {
		head = append(head, fmt.Sprintf("%s: the highest of %d", group.First().Setup, group.First().Instances), "share of the leader")
	}
	for _, column := range columns {
		leader := lead.Spread(report.Leader(column.of))
		row := []string{column.name, report.Format(leader, column.unit), report.Format(lead.Spread(report.Standby(column.of)), column.unit)}
		for _, group := range groups[1:] {
			highest := group.Spread(report.Highest(column.of))
			row = append(row, report.Format(highest, column.unit), report.Share(highest, leader))
		}
		rows = append(rows, row)
	}
	for _, group := range groups {
		if group.First().Setup == fleet.External {
			rows = append(rows, sharderRows(group, len(head))...)
		}
	}
	return command(r) + "\n\n" + table(head, rows)
}

// sharderRows are the usage of the external sharder, in the column before the last.
func sharderRows(group report.Group, width int) (rows [][]string) {
	for _, column := range columns {
		spread := group.Usage(fleet.Sharder, column.of)
		if spread.Runs == 0 {
			continue
		}
		row := make([]string, width)
		row[0], row[width-2] = "sharder: "+column.name, report.Format(spread, column.unit)
		rows = append(rows, row)
	}
	return rows
}

func controlPlane(r *report.Report) string {
	head, rows := []string{""}, [][]string{}
	for _, group := range r.Groups() {
		head = append(head, group.Title)
	}
	add := func(name string, cell func(report.Group) string) {
		row := []string{name}
		for _, group := range r.Groups() {
			row = append(row, cell(group))
		}
		rows = append(rows, row)
	}
	for _, process := range []string{report.APIServer, report.Etcd} {
		add(process+": CPU", func(g report.Group) string { return report.Format(g.Usage(process, report.CPU), "cores") })
		add(process+": resident memory, at most", func(g report.Group) string { return report.Format(g.Usage(process, report.Resident), "B") })
	}
	for _, latency := range []struct {
		name string
		of   func(*run.Result) []run.Latency
	}{
		{"create a Website", func(r *run.Result) []run.Latency { return r.Responses }},
		{"change a Website", func(r *run.Result) []run.Latency { return r.Responses }},
		{"Website Ready", func(r *run.Result) []run.Latency { return r.Responses }},
		{run.AdmissionInSharder, func(r *run.Result) []run.Latency { return r.Admission }},
	} {
		add(latency.name+": p50, p99, maximum", func(g report.Group) string { return report.FormatLatency(g, latency.of, latency.name) })
	}
	return table(head, rows)
}

func share(r *report.Report) string {
	groups := r.Groups()
	lead, external := groups[0], groups[len(groups)-1]
	var rows [][]string
	for _, column := range columns {
		leader, highest := lead.Spread(report.Leader(column.of)), external.Spread(report.Highest(column.of))
		rows = append(rows, []string{
			column.name, report.Format(leader, column.unit), report.Format(lead.Spread(report.Standby(column.of)), column.unit),
			report.Format(highest, column.unit), report.Share(highest, leader), report.Format(external.Usage(fleet.Sharder, column.of), column.unit),
		})
	}
	return table([]string{"", "leader", "a standby", "the highest of three shards", "share of the leader", "external sharder"}, rows)
}

func disturbances(results reports) (string, error) {
	var rows [][]string
	for _, name := range []string{"rolling-update", "rebalance", "reconnect", "chaos"} {
		r, err := results(name)
		if err != nil {
			return "", err
		}
		if r == nil {
			continue
		}
		result := r.Results[0]
		recovery := "–"
		for _, found := range result.Recoveries {
			text := fmt.Sprintf("%d Websites: p50 %.1f s, all %.1f s", found.Websites, found.P50, found.Max)
			if found.Missing > 0 {
				text += fmt.Sprintf(", %d not", found.Missing)
			}
			recovery = strings.TrimPrefix(recovery+"; "+text, "–; ")
		}
		writes := "–"
		if result.Ownership.Moves >= 1 {
			writes = fmt.Sprintf("%.2f", result.Ownership.WritesPerMove())
		}
		rows = append(rows, []string{
			"`" + name + "`", fmt.Sprintf("%.0f", result.Ownership.Ownerless), recovery, fmt.Sprintf("%.0f", result.Ownership.Moves), writes,
			report.FormatLatency(r.Groups()[0], func(r *run.Result) []run.Latency { return r.Responses }, "Website Ready"), strconv.Itoa(len(result.Overlaps)),
		})
	}
	if len(rows) == 0 {
		return "", nil
	}
	return table([]string{
		"scenario", "Websites without a live owner, at most", "time to recovery after each kill", "moves", "writes per move", "Ready: p50, p99, maximum", "overlapping reconciles",
	}, rows), nil
}

func headline(results reports) (string, error) {
	var rows [][]string
	overlaps, runs, reconciles := 0, 0, 0
	for _, name := range names {
		r, err := results(name)
		if err != nil {
			return "", err
		}
		if r == nil {
			continue
		}
		for _, result := range r.Results {
			overlaps, runs, reconciles = overlaps+len(result.Overlaps), runs+1, reconciles+result.Reconciles
		}
		groups := r.Groups()
		first, last := groups[0], groups[len(groups)-1]
		switch name {
		case "capacity":
			ratios := report.CapacityRatios(last, first)
			text := report.Format(ratios, "×") + fmt.Sprintf(", %d runs", ratios.Runs)
			if n := unreached(first) + unreached(last); n > 0 {
				text += fmt.Sprintf("; %d of %d ramps did not reach the capacity", n, len(first.Results)+len(last.Results))
			}
			rows = append(rows, []string{fmt.Sprintf("capacity of %d instances, compared to one", last.First().Instances), text})
		case "size":
			multiple := func(value func(run.Figures) float64) string {
				return report.Times(last.Usage(fleet.Sharder, value).Median, first.Usage(fleet.Sharder, value).Median)
			}
			rows = append(rows, []string{
				"sharder with " + report.Times(float64(last.First().Load.Initial), float64(first.First().Load.Initial)) + " the Websites, same rate of changes",
				multiple(report.CPU) + " the CPU, " + multiple(report.HeapInUse) + " the heap",
			})
		case "setups":
			share := func(get func(run.Figures) float64) string {
				return report.Share(last.Spread(report.Highest(get)), first.Spread(report.Leader(get)))
			}
			rows = append(rows, []string{
				"one of three shards, compared to a single leader", share(report.CPU) + " of its CPU, " + share(report.LiveHeap) + " of its live heap, " + share(report.Received) + " of what it receives",
			})
		}
	}
	if len(rows) == 0 {
		return "", nil
	}
	rows = append(rows, []string{"overlapping reconciles of one Website", fmt.Sprintf("%d of %s in %d runs", overlaps, report.Count(reconciles), runs)})
	return table([]string{"figure", "result; median and range of several runs"}, rows), nil
}

// names are the reports that documents quote.
var names = []string{"capacity", "size", "setups", "rolling-update", "rebalance", "reconnect", "chaos"}

// conditions lists the commands of all reports, and the machine of the first.
func conditions(results reports) (string, error) {
	var rows [][]string
	machine := ""
	for _, name := range names {
		r, err := results(name)
		if err != nil {
			return "", err
		}
		if r == nil {
			continue
		}
		if machine == "" {
			var parts []string
			for _, pair := range append(r.Machine, r.Versions...) {
				if pair[1] != "unknown" {
					parts = append(parts, pair[0]+" "+pair[1])
				}
			}
			machine = "Measured on: " + strings.Join(parts, "; ") + ". API server, etcd, load generator and operator share the machine."
		}
		rows = append(rows, []string{"[" + name + "](../results/" + name + "/report.md)", strconv.Itoa(len(r.Results)), r.Results[0].Begin.UTC().Format("2006-01-02"), command(r)})
	}
	if len(rows) == 0 {
		return "", nil
	}
	return machine + "\n\n" + table([]string{"report", "runs", "date", "command"}, rows), nil
}
