package run

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/procfs"

	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
)

// What is kept of what processes say of themselves.
var (
	kept = []string{
		"workqueue_queue_duration_seconds", "workqueue_work_duration_seconds", "workqueue_depth", "controller_runtime_reconcile_total",
		"controller_runtime_reconcile_errors_total", "rest_client_requests_total", "go_memstats_heap_alloc_bytes", "go_memstats_heap_inuse_bytes",
		"go_goroutines", "controller_sharding",
	}
	keptOfAPIServer = []string{
		"apiserver_request_duration_seconds_bucket", "apiserver_request_total", "go_memstats_heap_alloc_bytes",
		"apiserver_admission_webhook_fail_open_count", "apiserver_admission_webhook_admission_duration_seconds",
	}
)

// enough is how often in a row an objective does not hold when the load is too large, and not just something else at work.
const enough = 4

// apiServerEvery is how often the API server is asked for its metrics, in intervals: they are many.
const apiServerEvery = 3

// Machine is the process that stands for all of this machine.
const Machine = "machine"

// measure notes everything, again and again, until ctx ends.
func (r *run) measure(ctx context.Context, fail context.CancelCauseFunc) {
	ticker := time.NewTicker(r.Interval)
	defer ticker.Stop()
	bad := 0
	for times := 0; ; times++ {
		now := time.Now()
		r.note(ctx, now)
		if times%apiServerEvery == 0 {
			r.noteAPIServer(ctx, now)
		}
		r.Progress(now.Sub(r.begin), r.Scenario.Duration, r.state(context.WithoutCancel(ctx), now))
		if r.Scenario.Ramp {
			if bad = r.climb(ctx, now, bad); bad == enough {
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
		if samples.Proc(process.PID) == nil && process.Metrics != nil {
			if text, err := process.Metrics(ctx); err == nil {
				samples.Read(text, kept...)
			}
		}
		r.commit(samples)
	}
	samples := r.book.Begin(ctx, load.Process, at)
	if text, err := r.users.Text(); err == nil {
		samples.Read(text, "")
	}
	r.commit(samples)
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
	r.commit(samples)
}

func (r *run) noteAPIServer(ctx context.Context, at time.Time) {
	text, err := r.fleet.APIServer(ctx)
	if err != nil {
		return // it may be away
	}
	samples := r.book.Begin(ctx, "kube-apiserver-metrics", at)
	samples.Read(text, keptOfAPIServer...)
	r.commit(samples)
}

// commit keeps what was noted. What cannot be kept is told once, in the result.
func (r *run) commit(samples *measure.Samples) {
	if err := samples.Commit(); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.troubles) == 0 {
			r.troubles = append(r.troubles, err.Error())
		}
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

const (
	// window is over which time it is judged whether a load is borne.
	window = time.Minute
	// recently is over which time it is counted how large that load is.
	recently = 20 * time.Second
)

// climb looks whether the load is still borne, and how often in a row it was not.
func (r *run) climb(ctx context.Context, at time.Time, bad int) int {
	if at.Sub(r.begin) < window {
		return 0
	}
	gaveWay, err := r.gaveWay(ctx, at)
	if err != nil {
		return bad
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if gaveWay != "" {
		if r.limit != nil && bad == 0 {
			r.limit.GaveWay = gaveWay
		}
		return bad + 1
	}
	objects, _, err := r.book.One(ctx, load.Objects, at)
	if err != nil {
		return bad
	}
	changes, _, err := r.book.One(ctx, fmt.Sprintf("sum(rate(%s[%ds]))", load.OperationsTotal, seconds(recently)), at)
	if err != nil {
		return bad
	}
	r.limit = &Capacity{Objects: objects, Changes: changes}
	return 0
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
	return "", nil
}
