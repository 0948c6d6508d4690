package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/procfs"

	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
)

// The metrics that are stored, by prefix.
var (
	storedMetrics = []string{
		"workqueue_queue_duration_seconds", "workqueue_work_duration_seconds", "workqueue_depth", "controller_runtime_reconcile_total",
		"controller_runtime_reconcile_errors_total", "rest_client_requests_total", heapAllocated, heapInUse,
		"go_goroutines", "controller_sharding",
	}
	storedAPIServerMetrics = []string{
		requestDuration + "_bucket", "apiserver_request_total", heapInUse,
		"apiserver_admission_webhook_fail_open_count", "apiserver_admission_webhook_admission_duration_seconds",
	}
)

const (
	// heapInUse is the memory of Go's heap that is in use, including garbage and fragmentation.
	heapInUse = "go_memstats_heap_inuse_bytes"
	// heapAllocated is the memory of Go's objects. After a garbage collection, all of it is in use.
	heapAllocated = "go_memstats_heap_alloc_bytes"
)

// limitConfirmed is for how long an objective must not hold until a ramp ends: longer than one slow moment stays in the window.
const limitConfirmed = window + 30*time.Second

// apiServerEvery is how many intervals are between two reads of the API server's metrics, which are large.
const apiServerEvery = 3

// Machine is the process name that stands for the whole machine.
const Machine = "machine"

// measure takes samples until ctx is done.
func (r *run) measure(ctx context.Context, fail context.CancelCauseFunc) {
	ticker := time.NewTicker(r.Interval)
	defer ticker.Stop()
	var failing time.Time
	for n := 0; ; n++ {
		now := time.Now()
		if n == 0 {
			now = r.begin
		}
		r.sample(ctx, now)
		if n%apiServerEvery == 0 {
			r.sampleAPIServer(ctx, now)
		}
		r.Progress(now.Sub(r.begin), r.Scenario.Duration, r.status(context.WithoutCancel(ctx), now))
		if r.Scenario.Ramp {
			if failing = r.updateCapacity(ctx, now, failing); !failing.IsZero() && now.Sub(failing) >= limitConfirmed {
				fail(errLimit)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			r.sampleAPIServer(context.WithoutCancel(ctx), time.Now())
			return
		}
	}
}

// sample stores the metrics of all processes, and what the kernel accounts for them. One that has just exited is skipped.
func (r *run) sample(ctx context.Context, at time.Time) {
	for _, process := range r.fleet.Processes() {
		batch := r.store.Batch(ctx, process.Name, at)
		failed := batch.Proc(process.PID)
		if process.Metrics != nil {
			text, err := process.Metrics(ctx)
			batch.Parse(text, storedMetrics...)
			failed = errors.Join(failed, err)
		}
		r.commit(process.Name, batch)
		if failed != nil && ctx.Err() == nil && r.fleet.Runs(process.Name) {
			r.failedReads[process.Name]++
			if r.failedReads[process.Name] == toleratedReads {
				r.addError(process.Name, failed)
			}
		}
	}
	batch := r.store.Batch(ctx, load.Process, at)
	text, err := r.load.Text()
	if err != nil {
		r.addError(load.Process, err)
	}
	batch.Parse(text, "")
	if err := batch.Proc(os.Getpid()); err != nil {
		r.addError(load.Process, err)
	}
	r.commit(load.Process, batch)
	r.sampleMachine(ctx, at)
}

// sampleMachine stores how busy the machine is.
func (r *run) sampleMachine(ctx context.Context, at time.Time) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return
	}
	stat, err := proc.Stat()
	if err != nil {
		return
	}
	all := stat.CPUTotal
	batch := r.store.Batch(ctx, Machine, at)
	batch.Add(measure.CPU, all.User+all.Nice+all.System+all.IRQ+all.SoftIRQ+all.Steal)
	batch.Add("experiment_cpus", float64(len(stat.CPU)))
	r.commit(Machine, batch)
}

func (r *run) sampleAPIServer(ctx context.Context, at time.Time) {
	const timeout = 10 * time.Second
	reading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	text, err := r.fleet.APIServer(reading)
	if err != nil {
		if !r.Scenario.Restarts() && ctx.Err() == nil {
			r.addError(apiServer, err)
		}
		return
	}
	if start := processStart.FindString(string(text)); start != r.apiServerStart {
		if slices.Contains(r.earlierStarts, start) {
			r.addError(apiServer, errors.New("several API servers respond in turn, so their metrics, and the verdicts about them, are meaningless: run on a cluster with one"))
		}
		r.apiServerStart, r.earlierStarts = start, append(r.earlierStarts, start)
	}
	batch := r.store.Batch(ctx, apiServer, at)
	batch.Parse(text, storedAPIServerMetrics...)
	r.commit(apiServer, batch)
}

const (
	// apiServer is the process name of the API server.
	apiServer = "kube-apiserver"
	// toleratedReads is how often the metrics of a process may be unavailable, because it has just started.
	toleratedReads = 5
)

// processStart is the line with the start time of the process that has responded.
var processStart = regexp.MustCompile(`(?m)^process_start_time_seconds .*$`)

func (r *run) commit(subject string, batch *measure.Batch) {
	if err := batch.Commit(); err != nil {
		r.addError(subject, err)
	}
}

// addError records a failed operation or measurement, once for each subject.
func (r *run) addError(subject string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.errors[subject] == "" {
		r.errors[subject] = subject + ": " + err.Error()
	}
}

// status describes the current load.
func (r *run) status(ctx context.Context, at time.Time) string {
	objects, _, err := r.store.QueryOne(ctx, load.Objects, at)
	if err != nil {
		return err.Error()
	}
	changes, _, err := r.store.QueryOne(ctx, fmt.Sprintf("sum(rate(%s[30s]))", load.OperationsTotal), at)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.0f Websites, %.0f changes/s, %d not Ready", objects, changes, r.load.Waiting())
}

// Capacity is the highest load at which all objectives held.
type Capacity struct {
	Objects float64 `json:"objects"`
	Changes float64 `json:"changesPerSecond"`
	// Busy is the share of the machine's CPU time in use while the objectives held last, over the same time as they are judged.
	Busy float64 `json:"busy,omitempty"`
	// Limit is the objective that did not hold beyond it. If it is empty, the capacity may be higher.
	Limit string `json:"limit,omitempty"`
}

// window is the time over which a ramp judges its load. In a shorter one, one instance does so few reconciles that their p99 is that
// of two or three: its capacity would be random.
const window = 2 * time.Minute

// updateCapacity updates the capacity. It returns since when an objective has not held, zero if all hold.
func (r *run) updateCapacity(ctx context.Context, at, failing time.Time) time.Time {
	if at.Sub(r.begin) < window {
		return time.Time{}
	}
	limit, err := r.failingObjective(ctx, at)
	if err != nil {
		return failing
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit != "" {
		if r.capacity != nil && failing.IsZero() {
			r.capacity.Limit = limit
		}
		if failing.IsZero() {
			failing = at
		}
		return failing
	}
	objects, known, err := r.store.QueryOne(ctx, load.Objects, at)
	if err != nil || !known {
		return failing
	}
	changes, known, err := r.store.QueryOne(ctx, fmt.Sprintf("sum(rate(%s[%dms]))", load.OperationsTotal, milliseconds(window)), at)
	if err != nil || !known {
		return failing
	}
	used, _, err := r.store.QueryOne(ctx, busy(window), at) // unknown if the system does not report it
	if err != nil {
		return failing
	}
	r.capacity = &Capacity{Objects: objects, Changes: changes, Busy: used}
	return time.Time{}
}

// failingObjective returns the first objective that does not hold now.
func (r *run) failingObjective(ctx context.Context, at time.Time) (string, error) {
	for _, objective := range Objectives() {
		verdict, err := judge(ctx, r.store, objective, window, at)
		if err != nil {
			return "", err
		}
		if !verdict.Holds {
			return objective.Name, nil
		}
	}
	// Changes that are not Ready are not in a histogram yet.
	objects, _, err := r.store.QueryOne(ctx, load.Objects, at)
	if overdue := r.load.Overdue(at); err == nil && float64(overdue) > (1-judged)*objects {
		return fmt.Sprintf("%d Websites are not Ready after %s", overdue, load.ReadyLimit), nil
	}
	return "", err
}
