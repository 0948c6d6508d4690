package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/history"
	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
)

// result summarises the measurements.
func (r *run) result(ctx context.Context) (*Result, error) {
	s := r.Scenario
	result := &Result{
		Scenario: s.Name, Setup: r.Fleet.Setup, Instances: s.Instances, Workers: r.Fleet.Workers, WorkTime: r.Fleet.WorkTime, Load: s.Load,
		Seed: r.Seed, Repeat: r.Repeat, Limits: r.Limits, Lasts: s.Duration, Begin: r.begin, End: r.end, Interrupted: r.interrupted,
		Capacity: r.capacity, Events: r.events, Errors: slices.Sorted(maps.Values(r.errors)),
		Kubernetes: r.fleet.Kubernetes(), Charts: map[string][]measure.Series{},
	}
	for _, part := range []func(context.Context, *Result) error{
		r.judgeAll, r.summarizeGenerator, r.summarizeProcesses, r.summarizeTogether, r.summarizeOwnership, r.summarizeRequests, r.summarizeLatencies,
		r.readHistory, r.queryCharts, r.writeSamples,
	} {
		if err := part(ctx, result); err != nil {
			return nil, err
		}
	}
	result.Invalid = r.Limits.check(result.Generator, r.capacity, s.Restarts())
	return result, nil
}

// span is the time that counts. It is a millisecond longer, so that it includes the first sample, and none before.
func (r *run) span() time.Duration {
	return r.end.Truncate(time.Millisecond).Sub(r.begin.Truncate(time.Millisecond)) + time.Millisecond
}

// over returns the span as a PromQL range.
func (r *run) over() string { return fmt.Sprintf("[%dms]", milliseconds(r.span())) }

// queryOne evaluates a query at the end of the run. It returns 0 if the result is empty.
func (r *run) queryOne(ctx context.Context, query string) (float64, error) {
	value, _, err := r.store.QueryOne(ctx, query, r.end)
	if math.IsNaN(value) {
		value = 0
	}
	return value, err
}

func (r *run) judgeAll(ctx context.Context, result *Result) error {
	for _, objective := range Objectives() {
		verdict, err := judge(ctx, r.store, objective, r.span(), r.end)
		if err != nil {
			return err
		}
		result.Verdicts = append(result.Verdicts, verdict)
	}
	return nil
}

// fill evaluates queries, and stores their results.
func (r *run) fill(ctx context.Context, queries map[*float64]string) error {
	for into, query := range queries {
		value, err := r.queryOne(ctx, query)
		if err != nil {
			return err
		}
		*into = value
	}
	return nil
}

func (r *run) summarizeGenerator(ctx context.Context, result *Result) error {
	g, window := &result.Generator, r.over()
	g.Failures = r.load.Failures()
	var machine, own, cpus float64
	err := r.fill(ctx, map[*float64]string{
		&machine:    fmt.Sprintf("increase(%s{process=%q}%s)", measure.CPU, Machine, window),
		&own:        fmt.Sprintf("sum(increase(%s{process!=%q}%s))", measure.CPU, Machine, window),
		&cpus:       "experiment_cpus",
		&g.Planned:  "increase(" + load.PlannedTotal + window + ")",
		&g.Done:     "sum(increase(" + load.OperationsTotal + `{outcome="done"}` + window + "))",
		&g.Failed:   "sum(increase(" + load.OperationsTotal + `{outcome="failed"}` + window + "))",
		&g.Retried:  "increase(" + load.RetriesTotal + window + ")",
		&g.Late:     fmt.Sprintf("histogram_quantile(%g, sum by (le) (increase(%s_bucket%s)))", judged, load.Lateness, window),
		&g.Busy:     busy(r.span()),
		&g.BusyPeak: "max_over_time((" + busy(r.peak()) + ")" + r.peaks() + ")",
	})
	g.BusyPeak = max(g.Busy, g.BusyPeak) // the windows of peaks may miss some seconds
	if r.Fleet.Plane != nil && cpus > 0 {
		g.Others = max(0, (machine-own)/cpus/r.span().Seconds())
	}
	return err
}

// busy is a query for the share of the machine's CPU time in use, over a time.
func busy(window time.Duration) string {
	return fmt.Sprintf(`rate(%s{process=%q}[%dms]) / ignoring(__name__) experiment_cpus`, measure.CPU, Machine, milliseconds(window))
}

// peak is the time over which a peak is an average, and peaks a PromQL subquery for it. No peak begins before the run.
func (r *run) peak() time.Duration { return min(time.Minute, r.span()/2) }

func (r *run) peaks() string {
	return fmt.Sprintf("[%dms:15s]", milliseconds(max(r.span()-r.peak(), time.Second)))
}

// summarizeProcesses adds the usage of each process.
func (r *run) summarizeProcesses(ctx context.Context, result *Result) error {
	window := r.over()
	figures := map[string]*Figures{}
	each := func(query string, at time.Time, keep func(*Figures, measure.Value)) error {
		found, err := r.store.Query(ctx, query, at)
		for _, value := range found {
			if math.IsNaN(value.Value) || math.IsInf(value.Value, 0) { // there is only one sample
				continue
			}
			name := value.Labels[measure.LabelProcess]
			if figures[name] == nil {
				figures[name] = &Figures{Name: name, Requests: map[string]float64{}}
			}
			keep(figures[name], value)
		}
		return err
	}
	// perSecond is the average while a process existed, which may be less than the whole time.
	perSecond := func(name string) string {
		return fmt.Sprintf("increase(%s%s) / (max_over_time(%s%s) - min_over_time(%s%s))", name, window, measure.Seen, window, measure.Seen, window)
	}
	peaks := fmt.Sprintf("max_over_time(rate(%s[%dms])%s)", measure.CPU, milliseconds(r.peak()), r.peaks())
	for query, keep := range map[string]func(*Figures, measure.Value){
		perSecond(measure.CPU): func(f *Figures, v measure.Value) { f.CPU = v.Value },
		peaks:                  func(f *Figures, v measure.Value) { f.CPUPeak = v.Value },
		"max_over_time(" + heapInUse + window + ")":        func(f *Figures, v measure.Value) { f.InUse = v.Value },
		"max_over_time(" + measure.Resident + window + ")": func(f *Figures, v measure.Value) { f.Resident = v.Value },
		perSecond(measure.Received):                        func(f *Figures, v measure.Value) { f.Received = v.Value },
		perSecond(measure.Sent):                            func(f *Figures, v measure.Value) { f.Sent = v.Value },
		`sum by (process) (increase(controller_runtime_reconcile_total{controller="website"}` + window + "))": func(f *Figures, v measure.Value) { f.Reconciles = v.Value },
		"sum by (process, method) (increase(rest_client_requests_total" + window + "))": func(f *Figures, v measure.Value) {
			f.Requests[v.Labels["method"]] = v.Value
		},
	} {
		if err := each(query, r.end, keep); err != nil {
			return err
		}
	}
	if !r.collected.IsZero() {
		heap := fmt.Sprintf("%s{%s=~%q}", heapAllocated, measure.LabelProcess, fleet.Ring+"-.*")
		if err := each(heap, r.collected, func(f *Figures, v measure.Value) { f.LiveHeap = v.Value }); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		if f := figures[name]; f.Resident > 0 { // and not one that stands for something else
			f.CPUPeak = max(f.CPU, f.CPUPeak) // a short-lived process has no peak
			result.Processes = append(result.Processes, *f)
		}
	}
	return nil
}

// summarizeTogether adds the usage of all instances. They need not have existed at the same time.
func (r *run) summarizeTogether(ctx context.Context, result *Result) error {
	selector, t := fmt.Sprintf("{%s=~%q}%s", measure.LabelProcess, fleet.Ring+"-.*", r.over()), &result.Together
	t.Name = fleet.Ring
	for name, rate := range map[string]*float64{measure.CPU: &t.CPU, measure.Received: &t.Received, measure.Sent: &t.Sent} {
		total, err := r.queryOne(ctx, fmt.Sprintf("sum(increase(%s%s))", name, selector))
		if err != nil {
			return err
		}
		*rate = total / r.span().Seconds()
	}
	samples, err := r.queryOne(ctx, fmt.Sprintf("count_over_time(%s{%s=%q}%s)", measure.CPU, measure.LabelProcess, Machine, r.over()))
	if err != nil || samples == 0 {
		return err
	}
	for name, average := range map[string]*float64{heapInUse: &t.InUse, measure.Resident: &t.Resident} {
		total, err := r.queryOne(ctx, fmt.Sprintf("sum(sum_over_time(%s%s))", name, selector))
		if err != nil {
			return err
		}
		*average = total / samples
	}
	return nil
}

func (r *run) summarizeRequests(ctx context.Context, result *Result) error {
	found, err := r.store.Query(ctx, "sum by (verb) (increase(apiserver_request_total"+r.over()+"))", r.end)
	result.Requests = map[string]float64{}
	for _, value := range found {
		if value.Value >= 1 {
			result.Requests[value.Labels["verb"]] = math.Round(value.Value)
		}
	}
	if err != nil {
		return err
	}
	result.FailedOpen, err = r.queryOne(ctx, "sum(increase(apiserver_admission_webhook_fail_open_count"+r.over()+"))")
	result.FailedOpen = math.Round(result.FailedOpen)
	return err
}

func (r *run) summarizeOwnership(ctx context.Context, result *Result) error {
	if !r.Fleet.Setup.Sharded() {
		return nil
	}
	o, window := &result.Ownership, r.over()
	err := r.fill(ctx, map[*float64]string{
		&o.Ownerless:        "max_over_time(" + load.Ownerless + window + ")",
		&o.OwnerlessSeconds: "avg_over_time(" + load.Ownerless + window + ")",
		&o.Moves:            "increase(" + load.MovesTotal + window + ")",
		&o.LabelWrites:      "increase(" + load.LabelWrites + window + ")",
	})
	o.OwnerlessSeconds *= r.end.Sub(r.begin).Seconds()
	return err
}

// readHistory finds overlapping reconciles, and recoveries, in the logs of the instances.
func (r *run) readHistory(_ context.Context, result *Result) error {
	var all []history.Line
	for _, path := range r.fleet.Logs() {
		lines, err := history.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was not started before the end
		}
		if err != nil {
			return err
		}
		all = append(all, lines...)
	}
	result.Reconciles = history.Reconciles(all)
	for _, exit := range r.fleet.Exits() {
		all = append(all, history.Exited(exit.Instance, exit.At))
	}
	result.Overlaps = history.Overlaps(all)
	result.Recoveries = recoveries(all, r.kills, r.load.Websites(), r.Fleet.Setup.Sharded())
	counted := 0.0
	for _, p := range result.Processes {
		counted += p.Reconciles
	}
	if result.Reconciles == 0 && counted > 0 {
		return fmt.Errorf("the instances count %.0f reconciles, and none is in their logs, so overlaps cannot be detected: start the operator with --zap-log-level=debug", counted)
	}
	return nil
}

// points is the approximate number of points of a chart.
const points = 120

// queryCharts adds the series of the charts.
func (r *run) queryCharts(ctx context.Context, result *Result) error {
	step := max(r.Interval, r.end.Sub(r.begin)/points).Round(time.Second)
	now := map[string]string{
		"objects": load.Objects, "waiting": load.Waiting, "inUse": heapInUse, "resident": measure.Resident,
		"owned": load.Owned, "ownerless": load.Ownerless, "moves": load.MovesTotal,
	}
	lately, longer := r.Interval*4, r.Interval*3*apiServerEvery
	over := func(window time.Duration) string { return fmt.Sprintf("[%dms]", milliseconds(window)) }
	rates := map[string]string{
		"changes":    "sum(rate(" + load.OperationsTotal + over(lately) + "))",
		"cpu":        "rate(" + measure.CPU + over(lately) + ")",
		"received":   "rate(" + measure.Received + over(lately) + ")",
		"sent":       "rate(" + measure.Sent + over(lately) + ")",
		"reconciles": `sum by (process) (rate(controller_runtime_reconcile_total{controller="website"}` + over(lately) + "))",
	}
	slow := map[string]string{"requests": "sum by (verb) (rate(apiserver_request_total" + over(longer) + "))"}
	for i, objective := range Objectives() {
		slow[fmt.Sprint("objective", i)] = objective.chart(longer)
	}
	// Rates are not known at the very beginning.
	for from, queries := range map[time.Duration]map[string]string{0: now, lately: rates, longer: slow} {
		if r.begin.Add(from).After(r.end) {
			continue
		}
		for name, query := range queries {
			series, err := r.store.QueryRange(ctx, query, r.begin.Add(from), r.end, step)
			if err != nil {
				return err
			}
			result.Charts[name] = series
		}
	}
	return nil
}
