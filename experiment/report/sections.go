package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/internal/stats"
)

func verdict(holds bool) string {
	if holds {
		return "✓ holds"
	}
	return "✗ does not hold"
}

// p99 formats the value of a verdict, not more precisely than it is known.
func p99(v run.Verdict) string {
	if !v.Coarse || *v.Value <= 0 {
		return amount(*v.Value, "s")
	}
	upper := math.Pow10(int(math.Ceil(math.Log10(*v.Value))))
	return amount(upper/10, "s") + " to " + amount(upper, "s") //nolint:mnd // the limits are powers of ten
}

// judgement describes an objective in all runs of a group: the slowest of them, and in how many it holds.
func describeVerdicts(group Group, objective int) string {
	var slowest *run.Verdict
	holding := 0
	for _, result := range group.Results {
		v := result.Verdicts[objective]
		if v.Holds {
			holding++
		}
		if v.Value == nil {
			return "✗ was not measured"
		}
		if slowest == nil || *v.Value > *slowest.Value {
			slowest = &v
		}
	}
	text := p99(*slowest)
	if slowest.Request != "" {
		text += " (" + slowest.Request + ")"
	}
	n := len(group.Results)
	text += " " + verdict(holding == n)
	if n > 1 && holding < n {
		text += fmt.Sprintf(" in %d of %d runs", n-holding, n)
	}
	return text
}

func (r *Report) objectives() section {
	s := section{title: "Objectives"}
	t := table{head: []string{"p99", "at most"}}
	for _, group := range r.Groups() {
		t.head = append(t.head, group.Title)
	}
	for i, objective := range run.Objectives() {
		row := []string{objective.Name, amount(objective.Limit, "s")}
		for _, group := range r.Groups() {
			row = append(row, describeVerdicts(group, i))
		}
		t.rows = append(t.rows, row)
	}
	overlaps := []string{"reconciles of one Website that overlap", "0"}
	for _, group := range r.Groups() {
		found, reconciles := 0, 0
		for _, result := range group.Results {
			found, reconciles = found+len(result.Overlaps), reconciles+result.Reconciles
		}
		overlaps = append(overlaps, fmt.Sprintf("%d of %s %s", found, formatNumber(float64(reconciles)), verdict(found == 0)))
	}
	t.rows = append(t.rows, overlaps)
	s.tables = append(s.tables, t)
	s.text = append(s.text, "Of several runs, the slowest. The queue's histogram has powers of ten only. The API server is judged by its slowest verb and resource.")
	for _, result := range r.Results {
		const maxShown = 5
		for _, overlap := range result.Overlaps[:min(maxShown, len(result.Overlaps))] {
			s.text = append(s.text, r.title(result)+": "+overlap)
		}
	}
	return s
}

func (r *Report) validity() section {
	s := section{title: "Validity"}
	t := table{head: []string{"", "operations, done / planned", "failed", "started late by, p99", "machine's CPU", "highest minute", "of other processes", "valid"}}
	for _, result := range r.Results {
		g := result.Generator
		valid := "✓ yes"
		if !result.Valid() {
			valid = "✗ no"
			s.text = append(s.text, r.title(result)+": invalid: "+strings.Join(result.Invalid, "; "))
		}
		t.rows = append(t.rows, []string{
			r.title(result), formatNumber(g.Done) + " / " + formatNumber(g.Planned), formatNumber(g.Failed), amount(g.Late, "s"), percent(g.Busy), percent(g.BusyPeak), percent(g.Others), valid,
		})
		if result.Interrupted {
			s.text = append(s.text, r.title(result)+": interrupted after "+result.End.Sub(result.Begin).Round(time.Second).String())
		}
		if g.Retried >= 1 {
			s.text = append(s.text, fmt.Sprintf("%s: the API server was unavailable; %s requests were retried", r.title(result), formatNumber(g.Retried)))
		}
		for _, failure := range g.Failures {
			s.text = append(s.text, r.title(result)+": an operation failed: "+failure)
		}
		if result.FailedOpen > 0 {
			s.text = append(s.text, fmt.Sprintf("%s: the API server could not reach the sharder's webhook %s times; the sharder assigned those Websites later",
				r.title(result), formatNumber(result.FailedOpen)))
		}
		for _, err := range result.Errors {
			s.text = append(s.text, r.title(result)+": incomplete: "+err)
		}
	}
	s.tables = append(s.tables, t)
	if len(r.Results) > 0 {
		l := r.Results[0].Limits
		s.text = append(s.text, fmt.Sprintf("A run is valid if the p99 of operations starts at most %s late, all but %s of them end, the machine uses at most %s of its CPU time, on average or at the capacity of a ramp, and other processes at most %s.",
			l.Lateness, percent(l.Unfinished), percent(l.CPU), percent(l.Others)))
	}
	return s
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

// merge returns the latencies of a group by name: the medians of the quantiles, and the highest maximum.
func merge(group Group, latencies func(*run.Result) []run.Latency) []run.Latency {
	var names []string
	byName := map[string][]run.Latency{}
	for _, result := range group.Results {
		for _, latency := range latencies(result) {
			if byName[latency.Name] == nil {
				names = append(names, latency.Name)
			}
			byName[latency.Name] = append(byName[latency.Name], latency)
		}
	}
	var all []run.Latency
	for _, name := range names {
		merged := run.Latency{Name: name}
		var p50, p99 []float64
		for _, latency := range byName[name] {
			p50, p99 = append(p50, latency.P50), append(p99, latency.P99)
			merged.Count += latency.Count
			if merged.Max = max(merged.Max, latency.Max); latency.Open {
				merged.Open = true
			}
		}
		merged.P50, merged.P99 = stats.Median(p50), stats.Median(p99)
		all = append(all, merged)
	}
	slices.SortStableFunc(all, func(a, b run.Latency) int { return cmp.Compare(b.P99, a.P99) })
	return all
}

func maximum(l run.Latency) string {
	if l.Open {
		return "more than " + amount(l.Max, "s")
	}
	return amount(l.Max, "s")
}

// slowest is how many verbs and resources a report shows.
const slowest = 12

func (r *Report) latencies() section {
	s := section{title: "Response times"}
	s.text = append(s.text,
		"Times of users count from when an operation was due, so they include the wait for earlier ones. Times of the API server are by verb and resource, the slowest first. "+
			"The maximum is the upper limit of the highest bucket of the histogram. Of several runs: the median of p50 and p99, and the highest maximum.")
	for _, group := range r.Groups() {
		t := table{head: []string{group.Title, "number", "p50", "p99", "maximum"}}
		add := func(source string, all []run.Latency) {
			for _, l := range all[:min(len(all), slowest)] {
				t.rows = append(t.rows, []string{source + ": " + l.Name, formatNumber(l.Count), amount(l.P50, "s"), amount(l.P99, "s"), maximum(l)})
			}
		}
		add("users", merge(group, func(result *run.Result) []run.Latency { return result.Responses }))
		add("admission", merge(group, func(result *run.Result) []run.Latency { return result.Admission }))
		add("API server", merge(group, func(result *run.Result) []run.Latency { return result.APILatencies }))
		s.tables = append(s.tables, t)
	}
	return s
}

func (r *Report) recovery() section {
	s := section{title: "Recovery after a kill"}
	t := table{head: []string{"", "killed after", "instance", "its Websites", "p50", "time to recovery", "not recovered"}}
	for _, result := range r.Results {
		for _, recovery := range result.Recoveries {
			t.rows = append(t.rows, []string{
				r.title(result), duration(recovery.At.Sub(result.Begin).Seconds()), recovery.Instance, formatNumber(float64(recovery.Websites)),
				amount(recovery.P50, "s"), amount(recovery.Max, "s"), dash(float64(recovery.Missing)),
			})
		}
	}
	if len(t.rows) == 0 {
		s.text = append(s.text, "No instance with Websites was killed.")
		return s
	}
	s.text = append(s.text, "From SIGKILL until each Website of the killed instance was reconciled to the end by another one; the time to recovery is that of the last Website.")
	s.tables = append(s.tables, t)
	return s
}

func (r *Report) usage() section {
	s := section{title: "Usage by process", details: true}
	s.text = append(s.text, "CPU on average while the process existed, and the highest minute; memory at most; live heap after a garbage collection at the end; bytes read and written per second, including files such as logs. The process users is the load generator.")
	for _, result := range r.Results {
		t := table{head: []string{r.title(result), "CPU", "highest minute", "heap in use", "live heap", "resident", "received", "sent", "reconciles", "API requests"}}
		for _, p := range result.Processes {
			t.rows = append(t.rows, []string{
				p.Name, amount(p.CPU, "cores"), amount(p.CPUPeak, "cores"), known(p.InUse, "B"), known(p.LiveHeap, "B"), amount(p.Resident, "B"),
				amount(p.Received, "B/s"), amount(p.Sent, "B/s"), dash(p.Reconciles), requests(p.Requests),
			})
		}
		s.tables = append(s.tables, t)
	}
	t := table{head: []string{"all requests to the API server"}}
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
	s := section{title: "Ownership of the Websites"}
	t := table{head: []string{"", "without a live owner, at most", "sum of times without one", "moves", "writes per move"}}
	for _, result := range r.Results {
		if !result.Setup.Sharded() {
			continue
		}
		o := result.Ownership
		writes := "–"
		if o.Moves >= 1 {
			writes = formatNumber(o.WritesPerMove())
		}
		t.rows = append(t.rows, []string{r.title(result), formatNumber(o.Ownerless), formatNumber(o.OwnerlessSeconds) + " s", dash(o.Moves), writes})
	}
	if len(t.rows) == 0 {
		s.text = append(s.text, "The leader reconciles all of them.")
		return s
	}
	s.tables = append(s.tables, t)
	return s
}

func known(value float64, unit string) string {
	if value == 0 {
		return "–"
	}
	return amount(value, unit)
}

func dash(value float64) string {
	if value == 0 {
		return "–"
	}
	return group(fmt.Sprintf("%.0f", value))
}

func requests(counts map[string]float64) string {
	var all []string
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		if counts[method] >= 1 {
			all = append(all, fmt.Sprintf("%s %s", method, dash(counts[method])))
		}
	}
	if len(all) == 0 {
		return "–"
	}
	return strings.Join(all, ", ")
}

func (r *Report) conditions() section {
	s := section{title: "Conditions"}
	s.text = append(s.text, "Measured with `"+r.Command+"`.")
	t := table{head: []string{"condition", "value"}}
	for _, rows := range [][][2]string{r.Machine, r.Versions, r.Parameters} {
		for _, pair := range rows {
			t.rows = append(t.rows, []string{pair[0], pair[1]})
		}
	}
	runs := table{head: []string{"run", "began", "planned duration", "seed", "workers", "initial Websites", "created per second", "deleted per second", "each changed every"}}
	for _, result := range r.Results {
		workers := "the operator's default"
		if result.Workers > 0 {
			workers = strconv.Itoa(result.Workers)
		}
		runs.rows = append(runs.rows, []string{
			r.title(result), result.Begin.UTC().Format(time.RFC3339), result.Lasts.String(), strconv.FormatUint(result.Seed, 10), workers,
			formatNumber(float64(result.Load.Initial)), formatNumber(result.Load.Create), formatNumber(result.Load.Delete), result.Load.ChangeEvery.String(),
		})
	}
	s.tables = append(s.tables, t, runs)
	return s
}
