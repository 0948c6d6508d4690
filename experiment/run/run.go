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

// Options say what to run.
type Options struct {
	Scenario scenario.Scenario
	Seed     uint64
	Fleet    fleet.Options
	// Projects are how many namespaces the users have.
	Projects int
	// Interval is how often is measured.
	Interval time.Duration
	// Dir is where measurements are kept while they are needed, Samples the file that they are written to, compressed, at the end.
	Dir, Samples string
	// Progress is told how far it is: of how much, and what happens.
	Progress func(done, all time.Duration, what string)
}

// run is a run that runs.
type run struct {
	Options
	fleet *fleet.Fleet
	users *load.Users
	book  *measure.Book
	begin time.Time // of what counts
	end   time.Time
	// interrupted is set when it was ended before its time.
	interrupted bool

	// started is when the API server says that it was started, now and before.
	started       string
	startedBefore []string
	missed        map[string]int // how often a process could not be measured

	mu       sync.Mutex
	events   []Happened
	troubles map[string]string // what could not be done or measured, by what it is about
	// limit is the load at which all objectives still held, when that is looked for.
	limit *Capacity
}

// Happened is something that happened in a run.
type Happened struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	// Meant is whether the scenario says so.
	Meant bool `json:"meant"`
}

// ErrLeft is when Websites of the users, or other things of a run, were left in somebody's cluster.
var ErrLeft = errors.New("not everything could be removed from the cluster")

// errLimit ends a run that has found what it was looking for.
var errLimit = errors.New("an objective does not hold any more")

// Run runs the scenario. When ctx ends before, the result is about what has run until then.
func Run(ctx context.Context, options Options) (_ *Result, err error) {
	r := &run{Options: options, missed: map[string]int{}, troubles: map[string]string{}}
	r.Fleet.Report = func(what string, wrong bool) {
		if wrong {
			r.happened(what, false)
		}
		options.Fleet.Report(what, wrong)
	}
	if r.book, err = measure.Open(filepath.Join(options.Dir, "measurements")); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.book.Close()) }()
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

// tooMany are series that are not written: the API server has thousands of them, and what they say is in the objectives.
const tooMany = "apiserver_request_duration_seconds_bucket"

// writeSamples writes all that was measured into a file.
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
	if err := r.book.WriteCSV(ctx, out, r.begin, tooMany); err != nil {
		return fmt.Errorf("writing the measurements: %w", err)
	}
	return out.Close()
}

// stop ends everything. A cluster that is not ours is left without Websites.
func (r *run) stop() error {
	const patience, patienceClearing = time.Minute, 10 * time.Minute
	var err error
	if r.Fleet.Plane == nil {
		r.Progress(r.Scenario.Duration, r.Scenario.Duration, "removing the Websites")
		clearing, cancel := context.WithTimeoutCause(context.Background(), patienceClearing, fmt.Errorf("it took longer than %s", patienceClearing))
		defer cancel()
		if err = r.fleet.Clear(clearing); err != nil {
			err = fmt.Errorf("%w: %w", ErrLeft, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.fleet.Stop(ctx)
	return err
}

// prepare makes the users, and what has to be there before the time begins to count.
func (r *run) prepare(ctx context.Context) error {
	config := rest.CopyConfig(r.Fleet.Config)
	config.QPS = -1
	users, err := client.NewWithWatch(config, client.Options{Scheme: fleet.Scheme()})
	if err != nil {
		return fmt.Errorf("reaching the cluster: %w", err)
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
	r.users = load.New(load.Options{Client: users, Namespaces: namespaces, Themes: themes, Ring: ring, Workers: workers, Runs: r.fleet.Runs})
	return nil
}

// work lets users, disturbances and measurements go on at the same time, until the scenario is over.
func (r *run) work(ctx context.Context) error {
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if plane := r.Fleet.Plane; plane != nil {
		go func() {
			select {
			case err := <-plane.Failed():
				fail(fmt.Errorf("the control plane has ended: %w", err))
			case <-running.Done():
			}
		}()
	}
	if err := r.users.Watch(running, fleet.Namespace); err != nil {
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
		// Who is late because the API server is away does not try for ever.
		doing, cancel := context.WithDeadline(running, r.begin.Add(r.Scenario.Duration+overtime))
		defer cancel()
		r.users.Do(doing, r.begin, r.plan())
	})
	busy.Go(func() { r.disturb(running) })
	busy.Wait()
	cause := context.Cause(running)
	if ctx.Err() == nil && cause == nil {
		r.settle(ctx)
	}
	measured()
	all.Wait()
	r.end = time.Now()
	r.users.GiveUp(r.end)
	r.note(context.WithoutCancel(ctx), r.end)
	r.interrupted = ctx.Err() != nil
	if r.interrupted || errors.Is(cause, errLimit) {
		return nil
	}
	return cause
}

// overtime is how much longer than it should last users may try to do all.
const overtime = time.Minute

// populate makes the initial Websites and waits until they are as they should be.
func (r *run) populate(ctx context.Context) error {
	initial := r.Scenario.Load.Initial
	if initial == 0 {
		return nil
	}
	var made sync.WaitGroup
	defer made.Wait()
	making, done := context.WithCancel(ctx)
	defer done()
	made.Go(func() { r.tellMade(making) })
	r.users.Do(ctx, time.Now(), func(yield func(scenario.Operation) bool) {
		for i := range initial {
			if !yield(scenario.Operation{Do: scenario.Create, Object: i}) {
				return
			}
		}
	})
	return r.calm(ctx)
}

// calm waits until all Websites are as they should be, and the instances have nothing to do any more.
func (r *run) calm(ctx context.Context) error {
	const quiet = 15 * time.Second
	const looks = 5 // in that time
	begun := time.Now()
	limit := begun.Add(5*time.Minute + time.Duration(r.Scenario.Load.Initial)*100*time.Millisecond)
	ticker := time.NewTicker(quiet / looks)
	defer ticker.Stop()
	for times := 0; ; times++ {
		now := time.Now()
		if now.After(limit) {
			return fmt.Errorf("%d of %d Websites are ready after %s, and something is still to do: make it smaller with --scale or --objects",
				r.users.Fulfilled(), r.Scenario.Load.Initial, now.Sub(begun).Round(time.Second))
		}
		r.note(ctx, now)
		if times%looks == 0 { // so that what it did for the preparation is known, and does not count
			r.noteAPIServer(ctx, now)
		}
		if r.users.Left() == 0 && now.Sub(begun) > quiet {
			done, known, err := r.book.One(ctx, fmt.Sprintf(`sum(increase(controller_runtime_reconcile_total{controller="website"}[%dms]))`, milliseconds(quiet)), now)
			if err == nil && known && done == 0 {
				return r.complete()
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// complete tells when there are fewer Websites than there should be, because some could not be made.
func (r *run) complete() error {
	if made, want := r.users.Fulfilled(), r.Scenario.Load.Initial; made < want {
		return fmt.Errorf("%d of %d Websites could not be made: %s", want-made, want, strings.Join(r.users.Failures(), "; "))
	}
	return nil
}

// tellMade tells how many of the initial Websites are as they should be.
func (r *run) tellMade(ctx context.Context) {
	ticker := time.NewTicker(r.Interval)
	defer ticker.Stop()
	for {
		r.Progress(0, r.Scenario.Duration, fmt.Sprintf("before it begins, %d of %d Websites are ready", r.users.Fulfilled(), r.Scenario.Load.Initial))
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// plan is what the users do from the beginning on: the initial Websites are there already.
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

// disturb lets happen what the scenario says, and waits for its end.
func (r *run) disturb(ctx context.Context) {
	for _, event := range r.Scenario.Events {
		if !r.await(ctx, event.At) {
			return
		}
		r.happened(event.String(), true)
		what, err := r.fleet.Disturb(ctx, event)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.trouble(event.String(), err)
		default:
			r.became(what)
		}
	}
	r.await(ctx, r.Scenario.Duration)
}

// await waits for a time of the scenario. It is false when the run is over before.
func (r *run) await(ctx context.Context, at time.Duration) bool {
	select {
	case <-time.After(time.Until(r.begin.Add(at))):
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *run) happened(what string, meant bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, Happened{time.Now(), what, meant})
}

// became says better what the last thing was that was meant to happen.
func (r *run) became(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range slices.Backward(r.events) {
		if r.events[i].Meant {
			r.events[i].What = what
			return
		}
	}
}

// settle gives what was changed last the time that it may take.
func (r *run) settle(ctx context.Context) {
	const interval, limit = 100 * time.Millisecond, 5 * time.Second
	for until := time.Now().Add(limit); r.users.Left() > 0 && time.Now().Before(until) && ctx.Err() == nil; {
		time.Sleep(interval)
	}
}
