package run

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/procfs"

	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
)

// What is kept of what processes say of themselves.
var (
	kept = []string{
		"workqueue_queue_duration_seconds", "workqueue_work_duration_seconds", "workqueue_depth", "controller_runtime_reconcile_total",
		"controller_runtime_reconcile_errors_total", "rest_client_requests_total", "go_memstats_heap_alloc_bytes", heapInUse,
		"go_goroutines", "controller_sharding",
	}
	keptOfAPIServer = []string{
		"apiserver_request_duration_seconds_bucket", "apiserver_request_total", heapInUse,
		"apiserver_admission_webhook_fail_open_count", "apiserver_admission_webhook_admission_duration_seconds",
	}
)

// heapInUse is what of Go's heap is in use.
const heapInUse = "go_memstats_heap_inuse_bytes"

// enough is for how long an objective does not hold when the load is too large, and it was not just a moment: that is seen for a
// whole window.
const enough = window + 30*time.Second

// apiServerEvery is how often the API server is asked for its metrics, in intervals: they are many.
const apiServerEvery = 3

// Machine is the process that stands for all of this machine.
const Machine = "machine"

// measure notes everything, again and again, until ctx ends.
func (r *run) measure(ctx context.Context, fail context.CancelCauseFunc) {
	ticker := time.NewTicker(r.Interval)
	defer ticker.Stop()
	var bad time.Time
	for times := 0; ; times++ {
		now := time.Now()
		if times == 0 {
			now = r.begin
		}
		r.note(ctx, now)
		if times%apiServerEvery == 0 {
			r.noteAPIServer(ctx, now)
		}
		r.Progress(now.Sub(r.begin), r.Scenario.Duration, r.state(context.WithoutCancel(ctx), now))
		if r.Scenario.Ramp {
			if bad = r.climb(ctx, now, bad); !bad.IsZero() && now.Sub(bad) >= enough {
				fail(errLimit)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			r.noteAPIServer(context.WithoutCancel(ctx), time.Now())
			return
		}
	}
}

// note notes what all processes say of themselves, and the kernel of them. One that has just ended says nothing.
func (r *run) note(ctx context.Context, at time.Time) {
	for _, process := range r.fleet.Processes() {
		samples := r.book.Begin(ctx, process.Name, at)
		missed := samples.Proc(process.PID)
		if process.Metrics != nil {
			text, err := process.Metrics(ctx)
			samples.Read(text, kept...)
			missed = errors.Join(missed, err)
		}
		r.commit(process.Name, samples)
		if missed != nil && ctx.Err() == nil && r.fleet.Runs(process.Name) {
			r.missed[process.Name]++
			if r.missed[process.Name] == severely {
				r.trouble(process.Name, missed)
			}
		}
	}
	samples := r.book.Begin(ctx, load.Process, at)
	text, err := r.users.Text()
	if err != nil {
		r.trouble(load.Process, err)
	}
	samples.Read(text, "")
	r.commit(load.Process, samples)
	r.noteMachine(ctx, at)
}

// noteMachine notes how busy the machine is.
func (r *run) noteMachine(ctx context.Context, at time.Time) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return
	}
	stat, err := proc.Stat()
	if err != nil {
		return
	}
	all := stat.CPUTotal
	samples := r.book.Begin(ctx, Machine, at)
	samples.Add(measure.CPU, all.User+all.Nice+all.System+all.IRQ+all.SoftIRQ+all.Steal)
	samples.Add("experiment_cpus", float64(len(stat.CPU)))
	r.commit(Machine, samples)
}

func (r *run) noteAPIServer(ctx context.Context, at time.Time) {
	const patience = 10 * time.Second
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := r.fleet.APIServer(asking)
	if err != nil {
		if !r.Scenario.Restarts() && ctx.Err() == nil { // it may be away
			r.trouble(apiServer, err)
		}
		return
	}
	if start := startTime.FindString(string(text)); start != r.started {
		if slices.Contains(r.startedBefore, start) {
			r.trouble(apiServer, errors.New("several of them answer in turn: their own figures, and the verdicts about them, are worth nothing"))
		}
		r.started, r.startedBefore = start, append(r.startedBefore, start)
	}
	samples := r.book.Begin(ctx, apiServer, at)
	samples.Read(text, keptOfAPIServer...)
	r.commit(apiServer, samples)
}

const (
	// apiServer is the name under which it is noted.
	apiServer = "kube-apiserver"
	// severely is how often it has to fail that a process says something of itself until that is told. It may have just begun.
	severely = 5
)

// startTime is when the process that answers was started.
var startTime = regexp.MustCompile(`(?m)^process_start_time_seconds .*$`)

// commit keeps what was noted.
func (r *run) commit(of string, samples *measure.Samples) {
	if err := samples.Commit(); err != nil {
		r.trouble(of, err)
	}
}

// trouble tells in the result what could not be measured, once for each process.
func (r *run) trouble(of string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.troubles[of] == "" {
		r.troubles[of] = of + ": " + err.Error()
	}
}

// state says in a few words how it goes.
func (r *run) state(ctx context.Context, at time.Time) string {
	objects, _, err := r.book.One(ctx, load.Objects, at)
	if err != nil {
		return err.Error()
	}
	changes, _, err := r.book.One(ctx, fmt.Sprintf("sum(rate(%s[30s]))", load.OperationsTotal), at)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.0f Websites, %.0f changes/s, %d not ready", objects, changes, r.users.Left())
}

// Capacity is a load that was borne.
type Capacity struct {
	Objects float64 `json:"objects"`
	Changes float64 `json:"changesPerSecond"`
	// GaveWay is the objective that did not hold with more. If there is none, it may be more than this.
	GaveWay string `json:"gaveWay,omitempty"`
}

// window is over which time it is judged whether a load is borne, and how large it is. In less, one instance does so few reconciles that
// their slowest hundredth are two or three: it would be chance whether it bears a load, and the more instances, the less.
const window = 2 * time.Minute

// climb looks whether the load is still borne, and since when it is not.
func (r *run) climb(ctx context.Context, at, bad time.Time) time.Time {
	if at.Sub(r.begin) < window {
		return time.Time{}
	}
	gaveWay, err := r.gaveWay(ctx, at)
	if err != nil {
		return bad
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if gaveWay != "" {
		if r.limit != nil && bad.IsZero() {
			r.limit.GaveWay = gaveWay
		}
		if bad.IsZero() {
			bad = at
		}
		return bad
	}
	objects, known, err := r.book.One(ctx, load.Objects, at)
	if err != nil || !known {
		return bad
	}
	changes, known, err := r.book.One(ctx, fmt.Sprintf("sum(rate(%s[%dms]))", load.OperationsTotal, milliseconds(window)), at)
	if err != nil || !known {
		return bad
	}
	r.limit = &Capacity{Objects: objects, Changes: changes}
	return time.Time{}
}

// gaveWay is the first objective that does not hold now.
func (r *run) gaveWay(ctx context.Context, at time.Time) (string, error) {
	for _, objective := range Objectives() {
		verdict, err := judge(ctx, r.book, objective, window, at)
		if err != nil {
			return "", err
		}
		if !verdict.Holds {
			return objective.Name, nil
		}
	}
	// What is never ready is in no histogram yet.
	objects, _, err := r.book.One(ctx, load.Objects, at)
	if overdue := r.users.Overdue(at); err == nil && float64(overdue) > (1-quantile)*objects {
		return fmt.Sprintf("%d Websites wait for longer than %s", overdue, load.Limit), nil
	}
	return "", err
}
