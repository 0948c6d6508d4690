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
	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

// Result is what a run has shown.
type Result struct {
	Scenario  string      `json:"scenario"`
	Setup     fleet.Setup `json:"setup"`
	Instances int         `json:"instances"`
	Workers   int         `json:"workers,omitempty"`
	// WorkTime is how long each reconcile waited on purpose.
	WorkTime time.Duration `json:"workTime,omitempty"`
	Load     scenario.Load `json:"load"`
	Seed     uint64        `json:"seed"`
	// Lasts is how long it was to last.
	Lasts time.Duration `json:"lasts"`
	Begin time.Time     `json:"begin"`
	End   time.Time     `json:"end"`
	// Interrupted is set when it was ended before its time.
	Interrupted bool      `json:"interrupted,omitempty"`
	Verdicts    []Verdict `json:"verdicts"`
	Generator   Generator `json:"generator"`
	// Kubernetes is its version.
	Kubernetes string `json:"kubernetes"`
	// Processes are in the order of their names.
	Processes []Figures `json:"processes"`
	// Together is what all instances needed, memory on average: not all of them were there at the same time.
	Together Figures `json:"together"`
	// Requests are those that the API server has answered, of everybody, by verb.
	Requests map[string]float64 `json:"requests"`
	// Unreached is how often the API server could not ask a webhook, and went on without.
	Unreached float64   `json:"unreached"`
	Ownership Ownership `json:"ownership"`
	// Reconciles are how many there were, Doubles those that began while another instance was at work.
	Reconciles int      `json:"reconciles"`
	Doubles    []string `json:"doubles,omitempty"`
	// Capacity is the load that was borne, when that was looked for.
	Capacity *Capacity  `json:"capacity,omitempty"`
	Events   []Happened `json:"events,omitempty"`
	Troubles []string   `json:"troubles,omitempty"`
	// Charts are what there is to see over time, by name.
	Charts map[string][]measure.Line `json:"-"`
}

// Holds tells whether all objectives hold and nothing was reconciled by two at a time.
func (r *Result) Holds() bool {
	return len(r.Doubles) == 0 && !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return !v.Holds })
}

// Failed tells whether it has shown something that should not be. That objectives do not hold in the end is what is looked for
// where a capacity was found.
func (r *Result) Failed() bool {
	return len(r.Doubles) > 0 || r.Capacity == nil && !r.Holds() || !r.Complete()
}

// Complete tells whether all that the scenario says was done, and all was measured.
func (r *Result) Complete() bool { return len(r.Troubles) == 0 && r.Generator.Failed == 0 }

// Generator is how the users did.
type Generator struct {
	Planned float64 `json:"planned"`
	Done    float64 `json:"done"`
	Failed  float64 `json:"failed"`
	Retried float64 `json:"retried"`
	// Failures are some of the errors of those that failed.
	Failures []string `json:"failures,omitempty"`
	// Took is how long 99 of 100 requests took at most, in seconds.
	Took float64 `json:"took"`
	// Late is how much later than planned 99 of 100 operations were begun at most, in seconds.
	Late float64 `json:"late"`
	// Busy is the part of the machine that was at work, on average.
	Busy float64 `json:"busy"`
}

// Kept tells whether the users did what was promised, in time.
func (g Generator) Kept() bool {
	const missing, few, late = 0.01, 10, 1 // some are always under way when it ends
	return g.Planned-g.Done <= max(missing*g.Planned, few) && g.Late <= late
}

// Crowded tells whether the machine had so much to do that what was measured is its own limit as well.
func (g Generator) Crowded() bool {
	const most = 0.9
	return g.Busy > most
}

// Figures are those of a process.
type Figures struct {
	Name string `json:"name"`
	// CPU is in cores, on average and at most over a minute.
	CPU     float64 `json:"cpu"`
	CPUPeak float64 `json:"cpuPeak"`
	// InUse is Go's heap, Resident what the process has, in bytes, at most.
	InUse    float64 `json:"inUse,omitempty"`
	Resident float64 `json:"resident"`
	// Received and Sent are in bytes each second.
	Received float64 `json:"received"`
	Sent     float64 `json:"sent"`
	// Reconciles are how many it has begun, Requests what it has asked of the API server, by method.
	Reconciles float64            `json:"reconciles,omitempty"`
	Requests   map[string]float64 `json:"requests,omitempty"`
}

// Ownership is who had the Websites.
type Ownership struct {
	// Ownerless is how many had no live instance at most, and OwnerlessSeconds for how long altogether.
	Ownerless        float64 `json:"ownerless"`
	OwnerlessSeconds float64 `json:"ownerlessSeconds"`
	Moves            float64 `json:"moves"`
	// LabelWrites are the writes that moves took.
	LabelWrites float64 `json:"labelWrites"`
}

// WritesPerMove is how many writes a move took.
func (o Ownership) WritesPerMove() float64 {
	if o.Moves == 0 {
		return 0
	}
	return o.LabelWrites / o.Moves
}

// result sums up what was measured.
func (r *run) result(ctx context.Context) (*Result, error) {
	s := r.Scenario
	result := &Result{
		Scenario: s.Name, Setup: r.Fleet.Setup, Instances: s.Instances, Workers: r.Fleet.Workers, WorkTime: r.Fleet.WorkTime, Load: s.Load,
		Seed: r.Seed, Lasts: s.Duration, Begin: r.begin, End: r.end, Interrupted: r.interrupted, Capacity: r.limit, Events: r.events, Troubles: slices.Sorted(maps.Values(r.troubles)),
		Kubernetes: r.fleet.Kubernetes(), Charts: map[string][]measure.Line{},
	}
	for _, part := range []func(context.Context, *Result) error{r.judgeAll, r.judgeUsers, r.sumUp, r.sumUpTogether, r.sumUpOwnership, r.sumUpRequests, r.readHistory, r.draw, r.writeSamples} {
		if err := part(ctx, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// span is the time that counts. It is a moment longer, so that what was noted at its very beginning is in it, and nothing of before.
func (r *run) span() time.Duration {
	return r.end.Truncate(time.Millisecond).Sub(r.begin.Truncate(time.Millisecond)) + time.Millisecond
}

// over is the same in Prometheus' language.
func (r *run) over() string { return fmt.Sprintf("[%dms]", milliseconds(r.span())) }

// one is the answer to a question about the whole run, 0 if there is none.
func (r *run) one(ctx context.Context, question string) (float64, error) {
	value, _, err := r.book.One(ctx, question, r.end)
	if math.IsNaN(value) { // nothing was counted
		value = 0
	}
	return value, err
}

func (r *run) judgeAll(ctx context.Context, result *Result) error {
	for _, objective := range Objectives() {
		verdict, err := judge(ctx, r.book, objective, r.span(), r.end)
		if err != nil {
			return err
		}
		result.Verdicts = append(result.Verdicts, verdict)
	}
	return nil
}

// fill asks all questions and keeps their answers.
func (r *run) fill(ctx context.Context, questions map[*float64]string) error {
	for into, question := range questions {
		value, err := r.one(ctx, question)
		if err != nil {
			return err
		}
		*into = value
	}
	return nil
}

func (r *run) judgeUsers(ctx context.Context, result *Result) error {
	g, over := &result.Generator, r.over()
	g.Failures = r.users.Failures()
	return r.fill(ctx, map[*float64]string{
		&g.Planned: "increase(" + load.PlannedTotal + over + ")",
		&g.Done:    "sum(increase(" + load.OperationsTotal + `{outcome="done"}` + over + "))",
		&g.Failed:  "sum(increase(" + load.OperationsTotal + `{outcome="failed"}` + over + "))",
		&g.Retried: "increase(" + load.RetriesTotal + over + ")",
		&g.Late:    fmt.Sprintf("histogram_quantile(%g, sum by (le) (increase(%s_bucket%s)))", quantile, load.Lateness, over),
		&g.Took:    fmt.Sprintf("histogram_quantile(%g, sum by (le) (increase(%s_bucket%s)))", quantile, load.RequestTime, over),
		&g.Busy:    fmt.Sprintf(`rate(%s{process=%q}%s) / ignoring(__name__) experiment_cpus`, measure.CPU, Machine, over),
	})
}

// sumUp sums up what each process needed.
func (r *run) sumUp(ctx context.Context, result *Result) error {
	over := r.over()
	figures := map[string]*Figures{}
	each := func(question string, keep func(*Figures, measure.Value)) error {
		found, err := r.book.At(ctx, question, r.end)
		for _, value := range found {
			if math.IsNaN(value.Value) || math.IsInf(value.Value, 0) { // it was seen only once
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
	// perSecond is on average while a process was there, which may be less than the whole time.
	perSecond := func(name string) string {
		return fmt.Sprintf("increase(%s%s) / (max_over_time(%s%s) - min_over_time(%s%s))", name, over, measure.Seen, over, measure.Seen, over)
	}
	// No peak begins before the run.
	peak := min(time.Minute, r.span()/2)
	peaks := fmt.Sprintf("max_over_time(rate(%s[%dms])[%dms:15s])", measure.CPU, milliseconds(peak), milliseconds(max(r.span()-peak, time.Second)))
	for question, keep := range map[string]func(*Figures, measure.Value){
		perSecond(measure.CPU): func(f *Figures, v measure.Value) { f.CPU = v.Value },
		peaks:                  func(f *Figures, v measure.Value) { f.CPUPeak = v.Value },
		"max_over_time(" + heapInUse + over + ")":        func(f *Figures, v measure.Value) { f.InUse = v.Value },
		"max_over_time(" + measure.Resident + over + ")": func(f *Figures, v measure.Value) { f.Resident = v.Value },
		perSecond(measure.Received):                      func(f *Figures, v measure.Value) { f.Received = v.Value },
		perSecond(measure.Sent):                          func(f *Figures, v measure.Value) { f.Sent = v.Value },
		`sum by (process) (increase(controller_runtime_reconcile_total{controller="website"}` + over + "))": func(f *Figures, v measure.Value) { f.Reconciles = v.Value },
		"sum by (process, method) (increase(rest_client_requests_total" + over + "))": func(f *Figures, v measure.Value) {
			f.Requests[v.Labels["method"]] = v.Value
		},
	} {
		if err := each(question, keep); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		if f := figures[name]; f.Resident > 0 { // and not what stands for something else
			f.CPUPeak = max(f.CPU, f.CPUPeak) // one that was there for a moment has no peak
			result.Processes = append(result.Processes, *f)
		}
	}
	return nil
}

// sumUpTogether sums up what all instances needed. They need not have been there at the same time.
func (r *run) sumUpTogether(ctx context.Context, result *Result) error {
	of, t := fmt.Sprintf("{%s=~%q}%s", measure.LabelProcess, fleet.Ring+"-.*", r.over()), &result.Together
	t.Name = fleet.Ring
	for name, rate := range map[string]*float64{measure.CPU: &t.CPU, measure.Received: &t.Received, measure.Sent: &t.Sent} {
		total, err := r.one(ctx, fmt.Sprintf("sum(increase(%s%s))", name, of))
		if err != nil {
			return err
		}
		*rate = total / r.span().Seconds()
	}
	times, err := r.one(ctx, fmt.Sprintf("count_over_time(%s{%s=%q}%s)", measure.CPU, measure.LabelProcess, Machine, r.over()))
	if err != nil || times == 0 {
		return err
	}
	for name, average := range map[string]*float64{heapInUse: &t.InUse, measure.Resident: &t.Resident} {
		total, err := r.one(ctx, fmt.Sprintf("sum(sum_over_time(%s%s))", name, of))
		if err != nil {
			return err
		}
		*average = total / times
	}
	return nil
}

func (r *run) sumUpRequests(ctx context.Context, result *Result) error {
	found, err := r.book.At(ctx, "sum by (verb) (increase(apiserver_request_total"+r.over()+"))", r.end)
	result.Requests = map[string]float64{}
	for _, value := range found {
		if value.Value >= 1 {
			result.Requests[value.Labels["verb"]] = math.Round(value.Value)
		}
	}
	if err != nil {
		return err
	}
	result.Unreached, err = r.one(ctx, "sum(increase(apiserver_admission_webhook_fail_open_count"+r.over()+"))")
	result.Unreached = math.Round(result.Unreached)
	return err
}

func (r *run) sumUpOwnership(ctx context.Context, result *Result) error {
	if !r.Fleet.Setup.Sharded() {
		return nil
	}
	o, over := &result.Ownership, r.over()
	err := r.fill(ctx, map[*float64]string{
		&o.Ownerless:        "max_over_time(" + load.Ownerless + over + ")",
		&o.OwnerlessSeconds: "avg_over_time(" + load.Ownerless + over + ")",
		&o.Moves:            "increase(" + load.MovesTotal + over + ")",
		&o.LabelWrites:      "increase(" + load.LabelWrites + over + ")",
	})
	o.OwnerlessSeconds *= r.end.Sub(r.begin).Seconds()
	return err
}

// readHistory looks in the instances' logs for reconciles of two at a time.
func (r *run) readHistory(_ context.Context, result *Result) error {
	var all []history.Line
	for _, path := range r.fleet.Logs() {
		lines, err := history.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was not started any more
		}
		if err != nil {
			return err
		}
		all = append(all, lines...)
	}
	result.Reconciles = history.Reconciles(all)
	for _, halt := range r.fleet.Halts() {
		all = append(all, history.Halted(halt.Instance, halt.At))
	}
	result.Doubles = history.Doubles(all)
	counted := 0.0
	for _, p := range result.Processes {
		counted += p.Reconciles
	}
	if result.Reconciles == 0 && counted > 0 {
		return fmt.Errorf("the instances say that there were %.0f reconciles, and none is in their logs: whether two worked at once cannot be told", counted)
	}
	return nil
}

// points are about how many a chart has.
const points = 120

// draw keeps what there is to see over time.
func (r *run) draw(ctx context.Context, result *Result) error {
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
		slow[fmt.Sprint("objective", i)] = objective.question(longer)
	}
	// Of the very beginning it is not known yet how fast it was.
	for from, questions := range map[time.Duration]map[string]string{0: now, lately: rates, longer: slow} {
		if r.begin.Add(from).After(r.end) {
			continue
		}
		for name, question := range questions {
			lines, err := r.book.Over(ctx, question, r.begin.Add(from), r.end, step)
			if err != nil {
				return err
			}
			result.Charts[name] = lines
		}
	}
	return nil
}
