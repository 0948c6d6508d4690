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

// Options configure a Generator.
type Options struct {
	// Client sends the requests. It must not limit their rate.
	Client client.WithWatch
	// Namespaces are where Websites are created. Themes are the values of spec.theme, at least two.
	Namespaces, Themes []string
	// Ring is the ring whose shard label names the owner of a Website. If it is empty, owners are not tracked.
	Ring string
	// Runs reports whether the process of an instance runs: a killed instance still has a Lease.
	Runs func(instance string) bool
	// Workers is the number of concurrent requests.
	Workers int
}

// Generator executes the operations of a scenario.
type Generator struct {
	Options
	metrics  *metrics
	tracker  *tracker
	failures failures
}

// failures are samples of the errors of failed operations.
type failures struct {
	mu      sync.Mutex
	samples []string
}

func (f *failures) add(sample string) {
	const enough = 3
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.samples) < enough && !slices.Contains(f.samples, sample) {
		f.samples = append(f.samples, sample)
	}
}

// Failures returns some of the errors of failed operations.
func (g *Generator) Failures() []string {
	g.failures.mu.Lock()
	defer g.failures.mu.Unlock()
	return slices.Clone(g.failures.samples)
}

// New returns a Generator.
func New(options Options) *Generator {
	m := newMetrics()
	return &Generator{Options: options, metrics: m, tracker: newTracker(m, options.Runs)}
}

// Text returns the generator's metrics in Prometheus' text format.
func (g *Generator) Text() ([]byte, error) {
	g.tracker.updateGauges()
	return g.metrics.text()
}

// Waiting returns the number of Websites whose last change is not Ready yet.
func (g *Generator) Waiting() int { return g.tracker.waiting() }

// Ready returns the number of Websites whose changes are all Ready.
func (g *Generator) Ready() int { return g.tracker.readyCount() }

// Overdue returns the number of Websites with a change that has waited for longer than ReadyLimit.
func (g *Generator) Overdue(at time.Time) int { return g.tracker.overdue(at, ReadyLimit) }

// Owned returns the Websites that an instance owns, as namespace/name. Without a ring it returns all Websites.
func (g *Generator) Owned(instance string) []string { return g.tracker.ownedBy(instance) }

// Websites returns all existing Websites, as namespace/name.
func (g *Generator) Websites() []string { return g.tracker.names(func(*website) bool { return true }) }

// ReadyLimit is how long a change may take to become Ready.
const ReadyLimit = 5 * time.Second

// Finish counts the changes that are overdue at the end as if they became Ready now.
func (g *Generator) Finish(at time.Time) { g.tracker.finish(at, ReadyLimit) }

// worker executes operations one after the other.
type worker struct {
	*Generator
	queue   chan scenario.Operation
	begin   time.Time
	changes map[int]int // by object: how often it was changed
}

// Run executes all operations of a plan, each when it is due, and returns when the last one has ended or ctx is done.
func (g *Generator) Run(ctx context.Context, begin time.Time, plan func(yield func(scenario.Operation) bool)) {
	var all sync.WaitGroup
	workers := make([]*worker, g.Workers)
	const backlog = 1000
	for i := range workers {
		workers[i] = &worker{Generator: g, queue: make(chan scenario.Operation, backlog), begin: begin, changes: map[int]int{}}
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
		// One worker executes all operations on a Website, in order.
		select {
		case workers[operation.Object%len(workers)].queue <- operation:
			g.metrics.planned.Inc()
			continue
		case <-ctx.Done():
		}
		break
	}
	for _, w := range workers {
		close(w.queue)
	}
	all.Wait()
}

func (w *worker) run(ctx context.Context) {
	for operation := range w.queue {
		if ctx.Err() == nil {
			w.execute(ctx, operation)
		}
	}
}

// execute executes an operation. All durations count from its due time: an operation that had to wait for a worker has waited
// for the system, as its user would have.
func (w *worker) execute(ctx context.Context, operation scenario.Operation) {
	due := w.begin.Add(operation.At)
	w.metrics.lateness.Observe(max(0, time.Since(due).Seconds()))
	website := w.website(operation.Object)
	key := client.ObjectKeyFromObject(website)
	if operation.Do == scenario.Delete {
		w.tracker.deleting(key, time.Now(), ReadyLimit)
	} else {
		w.tracker.request(key, due)
	}
	if operation.Do == scenario.Change {
		w.changes[operation.Object]++
	}
	err := w.retry(ctx, func() error { return w.send(ctx, operation, website) })
	if ctx.Err() != nil {
		w.tracker.cancel(key)
		return
	}
	w.metrics.responses.WithLabelValues(string(operation.Do)).Observe(max(0, time.Since(due).Seconds()))
	outcome := done
	switch {
	case err != nil:
		outcome = failed
		w.tracker.cancel(key)
		w.failures.add(fmt.Sprintf("%s a Website: %v", operation.Do, err))
	case operation.Do != scenario.Delete:
		w.tracker.respond(key, website.Generation)
	}
	w.metrics.operations.WithLabelValues(string(operation.Do), outcome).Inc()
}

// retryFor is how long a request is repeated while the API server is unavailable.
const retryFor = 30 * time.Second

// retry repeats a request while the API server is unavailable.
func (w *worker) retry(ctx context.Context, send func() error) error {
	const pause = 200 * time.Millisecond
	for until := time.Now().Add(retryFor); ; {
		err := send()
		if err == nil || !unavailable(err) || time.Now().After(until) {
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

// unavailable reports whether an error means that the API server is not running, or not ready yet.
func unavailable(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || // in the middle of a response
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		strings.Contains(err.Error(), "TLS handshake timeout")
}

// labelSkip marks Websites that need no pods: the experiment measures the operator, not a node.
const labelSkip = "skip-workload"

func (w *worker) website(object int) *webhostingv1alpha1.Website {
	return &webhostingv1alpha1.Website{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.Namespaces[object%len(w.Namespaces)], Name: fmt.Sprintf("website-%06d", object),
		Labels: map[string]string{labelSkip: "true"},
	}}
}

// send sends one request. It needs no preconditions, because nothing else writes the spec of these Websites.
func (w *worker) send(ctx context.Context, operation scenario.Operation, website *webhostingv1alpha1.Website) error {
	switch operation.Do {
	case scenario.Create:
		website.Spec.Theme = w.Themes[0]
		website.ResourceVersion = "" // of an earlier attempt
		err := w.Client.Create(ctx, website)
		if apierrors.IsAlreadyExists(err) { // the response to the first attempt was lost
			return nil
		}
		return err
	case scenario.Change:
		theme := w.Themes[w.changes[operation.Object]%len(w.Themes)]
		return w.Client.Patch(ctx, website, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"theme":%q}}`, theme)))
	case scenario.Delete:
		return client.IgnoreNotFound(w.Client.Delete(ctx, website))
	}
	return fmt.Errorf("unknown operation %q", operation.Do)
}
