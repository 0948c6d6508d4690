package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

// Options say who the users are.
type Options struct {
	// Client is theirs. It must not wait between requests by itself.
	Client client.WithWatch
	// Namespaces are where the Websites are, Themes what they look like, two at least.
	Namespaces, Themes []string
	// Ring is that of the operator, for whose Websites are whose. Without it nobody is said to have them.
	Ring string
	// Runs tells whether the process of an instance runs: who was killed still has a Lease.
	Runs func(instance string) bool
	// Workers are how many requests are sent at the same time.
	Workers int
}

// Users do what a scenario says.
type Users struct {
	Options
	metrics  *metrics
	seen     *sightings
	failures failures
}

// failures are some of the errors of operations that were given up.
type failures struct {
	mu   sync.Mutex
	some []string
}

func (f *failures) add(what string) {
	const enough = 3
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.some) < enough && !slices.Contains(f.some, what) {
		f.some = append(f.some, what)
	}
}

// Failures are some of the errors of operations that were given up.
func (u *Users) Failures() []string {
	u.failures.mu.Lock()
	defer u.failures.mu.Unlock()
	return slices.Clone(u.failures.some)
}

// New prepares users.
func New(options Options) *Users {
	m := newMetrics()
	return &Users{Options: options, metrics: m, seen: newSightings(m, options.Runs)}
}

// Text is what they have to say in Prometheus' format.
func (u *Users) Text() ([]byte, error) {
	u.seen.count()
	return u.metrics.text()
}

// Left are the Websites that are not yet as they were wanted.
func (u *Users) Left() int { return u.seen.waiting() }

// Fulfilled are the Websites that are as they were wanted.
func (u *Users) Fulfilled() int { return u.seen.fulfilled() }

// Overdue are the Websites that have not been as they were wanted for longer than they may.
func (u *Users) Overdue(at time.Time) int { return u.seen.overdue(at, Limit) }

// Limit is how long it may take until a Website is as it was wanted.
const Limit = 5 * time.Second

// GiveUp counts the changes that are not fulfilled at the end, and should have been, as fulfilled now.
func (u *Users) GiveUp(at time.Time) { u.seen.giveUp(at, Limit) }

// worker does operations one after the other.
type worker struct {
	*Users
	todo    chan scenario.Operation
	begin   time.Time
	changes map[int]int // how often each Website was changed
}

// Do does all operations of a plan, the first ones at once and each at its time, and waits until the last one is done. When
// ctx ends, it does no more.
func (u *Users) Do(ctx context.Context, begin time.Time, plan func(yield func(scenario.Operation) bool)) {
	var all sync.WaitGroup
	workers := make([]*worker, u.Workers)
	const backlog = 1000
	for i := range workers {
		workers[i] = &worker{Users: u, todo: make(chan scenario.Operation, backlog), begin: begin, changes: map[int]int{}}
		all.Go(func() { workers[i].run(ctx) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for operation := range plan {
		if wait := time.Until(begin.Add(operation.At)); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		// What is done to one Website is done by one worker, in order.
		select {
		case workers[operation.Object%len(workers)].todo <- operation:
			u.metrics.planned.Inc()
			continue
		case <-ctx.Done():
		}
		break
	}
	for _, w := range workers {
		close(w.todo)
	}
	all.Wait()
}

func (w *worker) run(ctx context.Context) {
	for operation := range w.todo {
		if ctx.Err() != nil {
			continue
		}
		begun := time.Now()
		w.metrics.lateness.Observe(max(0, begun.Sub(w.begin.Add(operation.At)).Seconds()))
		outcome := done
		if err := w.persist(ctx, func() error { return w.do(ctx, operation) }); err != nil {
			outcome = failed
			w.seen.dismiss(client.ObjectKeyFromObject(w.website(operation.Object)))
			if ctx.Err() == nil {
				w.failures.add(fmt.Sprintf("%s a Website: %v", operation.Do, err))
			}
		}
		if ctx.Err() == nil {
			w.metrics.operations.WithLabelValues(string(operation.Do), outcome).Inc()
		}
	}
}

// patience is how long users try again when the API server is not there.
const patience = 30 * time.Second

// persist does something again while the API server is not there.
func (w *worker) persist(ctx context.Context, do func() error) error {
	const pause = 200 * time.Millisecond
	for until := time.Now().Add(patience); ; {
		err := do()
		if err == nil || !away(err) || time.Now().After(until) {
			return err
		}
		w.metrics.retries.Inc()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// away tells whether an error comes from an API server that is not there, or not yet.
func away(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || // in the middle of its answer
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		strings.Contains(err.Error(), "TLS handshake timeout")
}

// labelSkip is on Websites that need no pods: it is the operator that is measured, and not a node.
const labelSkip = "skip-workload"

func (w *worker) website(object int) *webhostingv1alpha1.Website {
	return &webhostingv1alpha1.Website{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.Namespaces[object%len(w.Namespaces)], Name: fmt.Sprintf("website-%06d", object),
		Labels: map[string]string{labelSkip: "true"},
	}}
}

// do sends one request. It needs no preconditions: nobody else has these Websites.
func (w *worker) do(ctx context.Context, operation scenario.Operation) error {
	website, begun := w.website(operation.Object), time.Now()
	key := client.ObjectKeyFromObject(website)
	var err error
	switch operation.Do {
	case scenario.Create:
		website.Spec.Theme = w.Themes[0]
		w.seen.expect(key, begun)
		err = w.Client.Create(ctx, website)
		if apierrors.IsAlreadyExists(err) { // the answer to the first request was lost
			err = nil
		}
	case scenario.Change:
		w.changes[operation.Object]++
		theme := w.Themes[w.changes[operation.Object]%len(w.Themes)]
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"theme":%q}}`, theme))
		w.seen.expect(key, begun)
		err = w.Client.Patch(ctx, website, patch)
	case scenario.Delete:
		w.seen.forget(key, begun, Limit)
		err = client.IgnoreNotFound(w.Client.Delete(ctx, website))
	}
	w.metrics.requests.WithLabelValues(string(operation.Do)).Observe(time.Since(begun).Seconds())
	if err == nil && operation.Do != scenario.Delete {
		w.seen.want(key, website.Generation)
	}
	return err
}
