package run

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

// Options configure a run.
type Options struct {
	Scenario scenario.Scenario
	Seed     uint64
	Fleet    fleet.Options
	// Limits are the conditions under which the run is valid.
	Limits Limits
	// Repeat is the number of the run among those of the same configuration, from 1 on; 0 if there is only one.
	Repeat int
	// Projects is the number of namespaces for Websites.
	Projects int
	// Interval is the time between two measurements.
	Interval time.Duration
	// Dir is a folder for measurements during the run. Samples is the file for the compressed measurements at the end.
	Dir, Samples string
	// Progress is called with the progress: the time that has passed, the total, and the state.
	Progress func(done, all time.Duration, state string)
}

// run is the state of a run.
type run struct {
	Options
	fleet *fleet.Fleet
	load  *load.Generator
	store *measure.Store
	begin time.Time // of the measurement, after the preparation
	end   time.Time
	// collected is when the instances have collected garbage after the end; zero if they have not.
	collected   time.Time
	interrupted bool

	// apiServerStart is the start time of the API server that has responded last, and earlierStarts are those before.
	apiServerStart string
	earlierStarts  []string
	failedReads    map[string]int // by process: how often it could not be measured

	mu     sync.Mutex
	events []Event
	kills  []kill
	errors map[string]string // by subject: failed operations and measurements
	// capacity is the highest load so far at which all objectives held, in a scenario with a ramp.
	capacity *Capacity
}

// Event is something that happened in a run.
type Event struct {
	At          time.Time `json:"at"`
	Description string    `json:"what"`
	// Planned is set if it is part of the scenario.
	Planned bool `json:"planned"`
}

// ErrLeft is returned when objects of a run remain in an existing cluster.
var ErrLeft = errors.New("not all objects of the experiment could be deleted from the cluster")

// errLimit ends a ramp that has reached its limit.
var errLimit = errors.New("an objective no longer holds")

// Run runs the scenario. If ctx is done early, the result covers the time until then.
func Run(ctx context.Context, options Options) (_ *Result, err error) {
	r := &run{Options: options, failedReads: map[string]int{}, errors: map[string]string{}}
	r.Fleet.Report = func(message string, wrong bool) {
		if wrong {
			r.addEvent(message, false)
		}
		options.Fleet.Report(message, wrong)
	}
	r.Fleet.Killing = r.killing
	if r.store, err = measure.Open(filepath.Join(options.Dir, "measurements")); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.store.Close()) }()
	if r.fleet, err = fleet.Start(ctx, r.Fleet); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if err := r.work(ctx); err != nil {
		return nil, err
	}
	return r.result(context.WithoutCancel(ctx))
}

// writeSamples writes all measurements into a file, except for the thousands of series that apiLatencies summarise.
func (r *run) writeSamples(ctx context.Context, _ *Result) (err error) {
	if r.Samples == "" {
		return nil
	}
	file, err := os.Create(r.Samples)
	if err != nil {
		return fmt.Errorf("writing the measurements: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := gzip.NewWriter(file)
	if err := r.store.WriteCSV(ctx, out, r.begin, requestDuration+"_bucket"); err != nil {
		return fmt.Errorf("writing the measurements: %w", err)
	}
	return out.Close()
}

// stop stops everything, and deletes the Websites from an existing cluster.
func (r *run) stop() error {
	const stopLimit, clearLimit = time.Minute, 10 * time.Minute
	var err error
	if r.Fleet.Plane == nil {
		r.Progress(r.Scenario.Duration, r.Scenario.Duration, "deleting the Websites")
		clearing, cancel := context.WithTimeoutCause(context.Background(), clearLimit, fmt.Errorf("timed out after %s", clearLimit))
		defer cancel()
		if err = r.fleet.Clear(clearing); err != nil {
			err = fmt.Errorf("%w: %w", ErrLeft, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	r.fleet.Stop(ctx)
	return err
}

// prepare creates the load generator, and the namespaces and Themes that it needs.
func (r *run) prepare(ctx context.Context) error {
	config := rest.CopyConfig(r.Fleet.Config)
	config.QPS = -1
	access, err := client.NewWithWatch(config, client.Options{Scheme: fleet.Scheme()})
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	namespaces, themes, err := r.fleet.Projects(ctx, r.Projects)
	if err != nil {
		return err
	}
	ring := ""
	if r.Fleet.Setup.Sharded() {
		ring = fleet.Ring
	}
	const workers = 64
	r.load = load.New(load.Options{Client: access, Namespaces: namespaces, Themes: themes, Ring: ring, Workers: workers, Runs: r.fleet.Runs})
	return nil
}

// work generates the load, executes the events and measures until the scenario is over.
func (r *run) work(ctx context.Context) error {
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if plane := r.Fleet.Plane; plane != nil {
		go func() {
			select {
			case err := <-plane.Failed():
				fail(fmt.Errorf("the control plane has failed: %w", err))
			case <-running.Done():
			}
		}()
	}
	if err := r.load.Watch(running, fleet.Namespace); err != nil {
		return err
	}
	if err := r.populate(running); err != nil {
		return err
	}
	r.begin = time.Now()
	var all sync.WaitGroup
	measuring, measured := context.WithCancel(context.WithoutCancel(ctx))
	defer measured()
	all.Go(func() { r.measure(measuring, fail) })
	var busy sync.WaitGroup
	busy.Go(func() {
		// Requests that wait for an API server that does not return must end.
		generating, cancel := context.WithDeadline(running, r.begin.Add(r.Scenario.Duration+overtime))
		defer cancel()
		r.load.Run(generating, r.begin, r.plan())
	})
	busy.Go(func() { r.disturb(running) })
	busy.Wait()
	cause := context.Cause(running)
	if ctx.Err() == nil && cause == nil {
		r.awaitReady(ctx)
	}
	measured()
	all.Wait()
	r.end = time.Now()
	r.load.Finish(r.end)
	r.sample(context.WithoutCancel(ctx), r.end)
	if r.interrupted = ctx.Err() != nil; !r.interrupted {
		r.collectGarbage(ctx)
	}
	if r.interrupted || errors.Is(cause, errLimit) {
		return nil
	}
	return cause
}

// collectGarbage measures the heap that the instances need, after the end of the measurement.
func (r *run) collectGarbage(ctx context.Context) {
	if err := r.fleet.CollectGarbage(ctx); err != nil {
		r.addError("garbage collection", err)
		return
	}
	r.collected = time.Now()
	r.sample(ctx, r.collected)
}

// overtime is how much longer than planned the load generator may take.
const overtime = time.Minute

// populate creates the initial Websites, and waits until they are Ready and the instances are idle.
func (r *run) populate(ctx context.Context) error {
	initial := r.Scenario.Load.Initial
	if initial == 0 {
		return nil
	}
	var reporting sync.WaitGroup
	defer reporting.Wait()
	creating, done := context.WithCancel(ctx)
	defer done()
	reporting.Go(func() { r.reportPopulation(creating) })
	r.load.Run(ctx, time.Now(), func(yield func(scenario.Operation) bool) {
		for i := range initial {
			if !yield(scenario.Operation{Do: scenario.Create, Object: i}) {
				return
			}
		}
	})
	return r.awaitIdle(ctx)
}

// awaitIdle waits until all Websites are Ready, and the instances have not reconciled for a while.
func (r *run) awaitIdle(ctx context.Context) error {
	const quiet = 15 * time.Second
	const samples = 5 // in that time
	begin := time.Now()
	limit := begin.Add(5*time.Minute + time.Duration(r.Scenario.Load.Initial)*100*time.Millisecond)
	ticker := time.NewTicker(quiet / samples)
	defer ticker.Stop()
	for n := 0; ; n++ {
		now := time.Now()
		if now.After(limit) {
			return fmt.Errorf("%d of %d Websites are Ready after %s, and the operator is not idle: choose a smaller --scale or fewer --objects",
				r.load.Ready(), r.Scenario.Load.Initial, now.Sub(begin).Round(time.Second))
		}
		r.sample(ctx, now)
		if n%samples == 0 { // so that the requests of the preparation are known, and do not count
			r.sampleAPIServer(ctx, now)
		}
		if r.load.Waiting() == 0 && now.Sub(begin) > quiet {
			reconciles, known, err := r.store.QueryOne(ctx, fmt.Sprintf(`sum(increase(controller_runtime_reconcile_total{controller="website"}[%dms]))`, milliseconds(quiet)), now)
			if err == nil && known && reconciles == 0 {
				return r.checkPopulation()
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// checkPopulation returns an error if not all initial Websites could be created.
func (r *run) checkPopulation() error {
	if created, want := r.load.Ready(), r.Scenario.Load.Initial; created < want {
		return fmt.Errorf("%d of %d Websites could not be created: %s", want-created, want, strings.Join(r.load.Failures(), "; "))
	}
	return nil
}

// reportPopulation reports the number of initial Websites that are Ready, until ctx is done.
func (r *run) reportPopulation(ctx context.Context) {
	ticker := time.NewTicker(r.Interval)
	defer ticker.Stop()
	for {
		r.Progress(0, r.Scenario.Duration, fmt.Sprintf("preparing, %d of %d Websites are Ready", r.load.Ready(), r.Scenario.Load.Initial))
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// plan returns the operations of the scenario without the creation of the initial Websites.
func (r *run) plan() func(yield func(scenario.Operation) bool) {
	return func(yield func(scenario.Operation) bool) {
		for operation := range r.Scenario.Plan(r.Seed) {
			if operation.Object < r.Scenario.Load.Initial && operation.Do == scenario.Create {
				continue
			}
			if !yield(operation) {
				return
			}
		}
	}
}

// disturb executes the events of the scenario, and waits for its end.
func (r *run) disturb(ctx context.Context) {
	for _, event := range r.Scenario.Events {
		if !r.sleepUntil(ctx, event.At) {
			return
		}
		r.addEvent(event.String(), true)
		description, err := r.fleet.Disturb(ctx, event)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.addError(event.String(), err)
		default:
			r.renameEvent(description)
		}
	}
	r.sleepUntil(ctx, r.Scenario.Duration)
}

// sleepUntil waits for a time of the scenario. It returns false if ctx is done before.
func (r *run) sleepUntil(ctx context.Context, at time.Duration) bool {
	select {
	case <-time.After(time.Until(r.begin.Add(at))):
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *run) addEvent(message string, planned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, Event{time.Now(), message, planned})
}

// renameEvent replaces the description of the last planned event by a more precise one.
func (r *run) renameEvent(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range slices.Backward(r.events) {
		if r.events[i].Planned {
			r.events[i].Description = message
			return
		}
	}
}

// awaitReady waits until the last changes are Ready, or have missed their objective.
func (r *run) awaitReady(ctx context.Context) {
	const interval = 100 * time.Millisecond
	for until := time.Now().Add(load.ReadyLimit); r.load.Waiting() > 0 && time.Now().Before(until) && ctx.Err() == nil; {
		time.Sleep(interval)
	}
}
