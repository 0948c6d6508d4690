package shard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// Shard is this process as a member of a ring. NewManager makes one; whoever has a manager of their
// own makes one with New, lets it Configure the manager's options, and calls Join.
type Shard struct {
	options Options
	config  *rest.Config
	lease   *Lease

	cache  *split        // once the manager has made its caches
	writer client.Client // for labels; it has no limits of its own and reads no cache
	guard  *guard
	queue  workqueue.TypedRateLimitingInterface[key] // objects that another shard asks for
	kinds  kinds
	peers  peers
	lock   atomic.Pointer[lock] // while this process is a member

	candidacy *candidacy // if the mode has an election

	mu        sync.Mutex
	warmed    []client.Object // kinds that a leader reads
	whole     cache.Cache     // the manager's
	runnables []manager.Runnable
	running   bool

	mapper     meta.RESTMapper
	configured bool
	graceful   time.Duration // how long the manager may take to end; negative is without limit
	joined     atomic.Bool
	lost       chan struct{} // closed when the Lease is lost
	losing     sync.Once
}

// New prepares to join a ring. Nothing is written before the manager starts.
func New(config *rest.Config, options Options) (*Shard, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	// A limit that is meant for reconcilers must not keep a shard from renewing its Lease.
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for leases: %w", err)
	}
	s := &Shard{
		options: options,
		config:  config,
		guard:   newGuard(),
		lost:    make(chan struct{}),
		kinds:   kinds{main: map[schema.GroupKind]*kind{}},
		lease: &Lease{
			Client: leases, Ring: options.Ring, Namespace: options.Namespace, Name: options.Name,
			Duration: options.LeaseDuration, RenewDeadline: options.RenewDeadline, RetryPeriod: options.RetryPeriod,
		},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[key](retryFirst, retryMost)),
	}
	s.peers.lease = s.lease
	return s, s.lease.Validate()
}

// retryFirst and retryMost are how long to wait before an object is handed over again that could
// not be.
const retryFirst, retryMost = 20 * time.Millisecond, 5 * time.Second

// Name is the name of this shard.
func (s *Shard) Name() string { return s.options.Name }

// Ring is the name of the ring that it joins.
func (s *Shard) Ring() string { return s.options.Ring }

// Selector selects the objects of this shard.
func (s *Shard) Selector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{shardingv1alpha1.LabelShard(s.Ring()): s.Name()})
}

// holds tells whether this process is a member at this very moment.
func (s *Shard) holds() bool {
	lock := s.lock.Load()
	return lock != nil && lock.valid()
}

// lose makes everything end soon.
func (s *Shard) lose() { s.losing.Do(func() { close(s.lost) }) }

// Ready is a check for a manager's AddReadyzCheck: it fails until this shard is a member of its ring, or,
// where there are no shards, this instance can take the lead.
func (s *Shard) Ready(*http.Request) error {
	if !s.joined.Load() {
		if !s.options.Mode.spread() || !s.options.Mode.works() {
			return errors.New("the caches of this instance are not filled yet")
		}
		return fmt.Errorf("this shard has not joined the ring %s yet", s.Ring())
	}
	return nil
}

// Configure changes the options of a manager so that its caches and its client know which objects
// are this shard's, and so that it takes part in the election that the mode needs.
func (s *Shard) Configure(options *manager.Options) error {
	s.graceful = 30 * time.Second // controller-runtime's default, and that of pods
	if options.GracefulShutdownTimeout != nil {
		s.graceful = *options.GracefulShutdownTimeout
	}
	s.configured = true
	if s.options.Mode.spread() {
		s.split(options)
	}
	return s.elect(options)
}

// split makes a manager's caches and client know which objects are this shard's.
func (s *Shard) split(options *manager.Options) {
	newCache, newClient := options.NewCache, options.NewClient
	if newCache == nil {
		newCache = cache.New
	}
	if newClient == nil {
		newClient = client.New
	}
	options.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		made, err := newSplit(newCache, config, options, s.Selector())
		s.cache = made
		return made, err
	}
	options.NewClient = func(config *rest.Config, options client.Options) (client.Client, error) {
		made, err := newClient(config, options)
		if err != nil {
			return nil, err
		}
		return &labeller{Client: made, shard: s}, nil
	}
	if s.options.HandOver == 0 {
		s.options.HandOver = defaultHandOver
		if s.graceful >= 0 { // negative is without limit
			s.options.HandOver = s.graceful * 5 / 6
		}
	}
}

// Join lets a manager run the shard. The manager must have been made with options that this Shard
// has configured. Start the one that is returned: unlike the given one it ends in time also when a
// reconciler does not heed its context.
func (s *Shard) Join(mgr manager.Manager) (*Manager, error) {
	if !s.configured || s.options.Mode.spread() && s.cache == nil {
		return nil, errors.New("the manager does not know of this shard: call Configure with its options before it is made")
	}
	writer, err := client.New(s.config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client for labels: %w", err)
	}
	s.writer, s.mapper, s.whole = writer, mgr.GetRESTMapper(), mgr.GetCache()
	if s.candidacy != nil && s.candidacy.lease != nil {
		//nolint:staticcheck // leader election has no other way to tell of its events
		s.candidacy.lease.LockConfig.EventRecorder = mgr.GetEventRecorderFor(s.candidacy.Identity())
	}
	if !s.options.Mode.spread() && s.candidacy != nil {
		context.AfterFunc(s.candidacy.over, s.lose)
	}
	errs := []error{mgr.Add(watch{s})}
	if s.options.Mode.sharder() {
		errs = append(errs, s.addSharder(mgr))
	}
	switch mode := s.options.Mode; {
	case !mode.spread():
		errs = append(errs, mgr.Add(elected{s}))
	case mode.works():
		errs = append(errs, mgr.Add(member{s}))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Manager{Manager: mgr, shard: s}, nil
}

// Add lets something run for as long as this process is a shard, like a controller that was made
// without ControllerManagedBy.
func (s *Shard) Add(runnable manager.Runnable) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return errors.New("the shard runs already: add everything before the manager starts")
	}
	s.runnables = append(s.runnables, runnable)
	return nil
}

// member is what the manager runs.
type member struct{ *Shard }

var _ manager.LeaderElectionRunnable = member{}

// NeedLeaderElection is false: all shards work at the same time.
func (member) NeedLeaderElection() bool { return false }

// Start is a shard of the ring until ctx ends or the Lease is lost.
func (m member) Start(ctx context.Context) error {
	log := logf.FromContext(ctx).WithValues("controllerRing", m.Ring(), "shard", m.Name(), "namespace", m.options.Namespace)
	ctx = logf.IntoContext(ctx, log)
	if err := m.fill(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := m.describe(); err != nil {
		return err
	}
	var failed error
	err := m.lease.run(ctx, func(held context.Context, lock *lock) {
		log.Info("Holds its lease")
		go lock.noticed(held)
		m.lock.Store(lock)
		m.joined.Store(true)
		defer context.AfterFunc(held, func() {
			if errors.Is(context.Cause(held), ErrLost) {
				m.lose()
			}
		})()
		failed = m.work(ctx, held, lock)
		m.joined.Store(false)
	})
	if err == nil && failed == nil {
		log.Info("Left the ring")
	}
	return errors.Join(err, failed)
}

// work runs all that is sharded. When ctx ends, the objects are handed over before that ends.
func (s *Shard) work(ctx, held context.Context, lock *lock) error {
	working, stop := context.WithCancelCause(held)
	defer stop(nil)
	group, err := s.start(working, stop)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		s.leave(working, lock)
	case <-working.Done(): // the Lease is lost, or something has failed
	}
	failed := context.Cause(working)
	stop(nil)
	s.queue.ShutDown()
	group.Wait()
	if errors.Is(failed, ErrLost) { // the Lease says so itself
		return nil
	}
	return failed
}

// start begins all that is sharded. Whatever fails stops the rest.
func (s *Shard) start(working context.Context, stop context.CancelCauseFunc) (*sync.WaitGroup, error) {
	if err := s.watch(working); err != nil {
		return nil, fmt.Errorf("watching the objects of this shard: %w", err)
	}
	group := s.startAll(working, stop)
	for range s.options.ConcurrentHandOvers {
		group.Go(func() {
			for s.answer(working) {
			}
		})
	}
	return group, nil
}

// startAll begins all that was added. Whatever fails stops the rest.
func (s *Shard) startAll(working context.Context, stop context.CancelCauseFunc) *sync.WaitGroup {
	s.mu.Lock()
	s.running = true
	runnables := s.runnables
	s.mu.Unlock()
	group := &sync.WaitGroup{}
	for _, runnable := range runnables {
		group.Go(func() {
			if err := runnable.Start(working); err != nil && working.Err() == nil {
				stop(err)
			}
		})
	}
	return group
}
