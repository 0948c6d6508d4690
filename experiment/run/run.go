package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
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
	// Dir is where measurements are kept.
	Dir string
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

	mu       sync.Mutex
	events   []Happened
	troubles []string // with the measurements
	// limit is the load at which all objectives still held, when that is looked for.
	limit *Capacity
}

// Happened is something that happened in a run.
type Happened struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// errLimit ends a run that has found what it was looking for.
var errLimit = errors.New("an objective does not hold any more")

// Run runs the scenario. When ctx ends before, the result is about what has run until then.
func Run(ctx context.Context, options Options) (_ *Result, err error) {
	r := &run{Options: options}
	if r.book, err = measure.Open(filepath.Join(options.Dir, "measurements")); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.book.Close()) }()
	if r.fleet, err = fleet.Start(ctx, options.Fleet); err != nil {
		return nil, err
	}
	defer r.stop()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if err := r.work(ctx); err != nil {
		return nil, err
	}
	return r.result(context.WithoutCancel(ctx))
}

func (r *run) stop() {
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.fleet.Stop(ctx)
}

// prepare makes the users, and what has to be there before the time begins to count.
func (r *run) prepare(ctx context.Context) error {
	if err := webhostingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	config := rest.CopyConfig(r.Fleet.Config)
	config.QPS = -1
	users, err := client.NewWithWatch(config, client.Options{})
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
	r.users = load.New(load.Options{Client: users, Namespaces: namespaces, Themes: themes, Ring: ring, Workers: workers})
	return nil
}

// work lets users, disturbances and measurements go on at the same time, until the scenario is over.
func (r *run) work(ctx context.Context) error {
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if err := r.users.Watch(running, fleet.Namespace, func(err error) { fail(err) }); err != nil {
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
	busy.Go(func() { r.users.Do(running, r.begin, r.plan()) })
	busy.Go(func() { r.disturb(running, fail) })
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

// populate makes the initial Websites and waits until they are as they should be.
func (r *run) populate(ctx context.Context) error {
	initial := r.Scenario.Load.Initial
	if initial == 0 {
		return nil
	}
	r.Progress(0, r.Scenario.Duration, fmt.Sprintf("making %d Websites", initial))
	r.users.Do(ctx, time.Now(), func(yield func(scenario.Operation) bool) {
		for i := range initial {
			if !yield(scenario.Operation{Do: scenario.Create, Object: i}) {
				return
			}
		}
	})
	const interval = 100 * time.Millisecond
	for r.users.Left() > 0 {
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
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
func (r *run) disturb(ctx context.Context, fail context.CancelCauseFunc) {
	for _, event := range r.Scenario.Events {
		if !r.await(ctx, event.At) {
			return
		}
		what, err := r.fleet.Disturb(ctx, event)
		if err != nil && ctx.Err() == nil {
			fail(fmt.Errorf("%s: %w", event, err))
			return
		}
		r.happened(what)
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

func (r *run) happened(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, Happened{time.Now(), what})
}

// settle gives what was changed last the time that it may take.
func (r *run) settle(ctx context.Context) {
	const interval, limit = 100 * time.Millisecond, 5 * time.Second
	for until := time.Now().Add(limit); r.users.Left() > 0 && time.Now().Before(until) && ctx.Err() == nil; {
		time.Sleep(interval)
	}
}
