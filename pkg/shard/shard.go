package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/membership"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/watches"
)

// Shard is this process as a member of a ring. NewManager makes one; to set a manager up yourself, make one with New, let
// it Configure the manager's options, and call Join.
//
// It connects two parts to the manager: membership, which knows whether this process is a shard, and ownership, which knows
// which objects are its own.
type Shard struct {
	options Options
	config  *rest.Config

	lease  *membership.Lease
	member atomic.Pointer[membership.Member] // while this process is a member
	owned  *ownership.Ownership
	// election is the manager's, if the mode needs one.
	election *election

	manager manager.Manager
	cache   *splitCache // once the manager has made its caches; nil where nothing is sharded
	mapper  meta.RESTMapper

	mu        sync.Mutex
	warmed    []client.Object // kinds that a leader reads
	watched   []watchedKind   // sharded kinds of Watches
	runnables []manager.Runnable
	running   bool

	configured      bool
	electionEnabled bool          // in the manager
	graceful        time.Duration // how long the manager may take to end; negative is without limit
	joined          atomic.Bool
	// ended is done when the Lease is lost, or something has failed that must end the manager, with the cause.
	ended context.Context //nolint:containedctx // it is the end of this shard
	end   context.CancelCauseFunc
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
		lease: &membership.Lease{
			Client: leases, Ring: options.Ring, Namespace: options.Namespace, Name: options.Name, Times: options.times(),
		},
	}
	s.ended, s.end = context.WithCancelCause(context.Background())
	s.owned = ownership.New(ownership.Options{
		Ring: options.Ring, Shard: options.Name, Objects: &cachedObjects{s}, Peers: &membership.Peers{Lease: s.lease},
		Grace: options.DrainGrace, ConcurrentReleases: options.ConcurrentHandOvers, Observe: s.observeRelease,
	})
	return s, s.lease.Validate()
}

// Name is the name of this shard.
func (s *Shard) Name() string { return s.options.Name }

// Ring is the name of the ring that it joins.
func (s *Shard) Ring() string { return s.options.Ring }

// Selector selects the objects of this shard.
func (s *Shard) Selector() labels.Selector { return s.owned.Selector() }

// isMember tells whether this process is a member at this very moment.
func (s *Shard) isMember() bool {
	member := s.member.Load()
	return member != nil && member.Valid()
}

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
	watches.Configure(&options.Cache)
	if s.options.Mode.spread() {
		s.split(options)
	}
	s.selectCached(options.Cache)
	err := s.elect(options)
	s.electionEnabled = options.LeaderElection
	return err
}

// selectCached makes the in-process sharder assign only what the caches have: a shard could never release the rest.
func (s *Shard) selectCached(options cache.Options) {
	namespaces := slices.Sorted(maps.Keys(options.DefaultNamespaces))
	if !s.options.Mode.sharder() || s.options.NamespaceSelector != nil || len(namespaces) == 0 || slices.Contains(namespaces, cache.AllNamespaces) {
		return
	}
	s.options.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces},
	}}
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
		made, err := newSplitCache(newCache, config, options, s.Selector())
		if err == nil {
			made.refuse, s.cache = func(err error) { s.end(err) }, made
		}
		return made, err
	}
	options.NewClient = func(config *rest.Config, options client.Options) (client.Client, error) {
		made, err := newClient(config, options)
		if err != nil {
			return nil, err
		}
		s.cache.newClient = func(all client.Reader) (client.Client, error) {
			if options.Cache != nil {
				uncached := *options.Cache
				uncached.Reader = all
				options.Cache = &uncached
			}
			return newClient(config, options)
		}
		return &adoptingClient{Client: made, owned: s.owned}, nil
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
// reconciler ignores its context.
func (s *Shard) Join(mgr manager.Manager) (*Manager, error) {
	if !s.configured || s.options.Mode.spread() && s.cache == nil {
		return nil, errors.New("the manager does not know of this shard: call Configure with its options before it is made")
	}
	writer, err := client.New(s.config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client for labels: %w", err)
	}
	s.owned.WriteWith(writer)
	s.manager, s.mapper = mgr, mgr.GetRESTMapper()
	s.joinElection(mgr)
	errs := []error{register(), mgr.Add(watchdog{s})}
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
	defer running.add(m.Shard)()
	if err := m.prepare(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	var failed error
	err := m.lease.Run(ctx, func(held context.Context, current *membership.Member) {
		log.Info("Acquired the shard lease")
		go m.warnUnnoticed(held, current)
		m.member.Store(current)
		m.joined.Store(true)
		defer context.AfterFunc(held, func() {
			if errors.Is(context.Cause(held), ErrLost) {
				m.end(ErrLost)
			}
		})()
		failed = m.work(ctx, held, current)
		m.joined.Store(false)
	})
	if errors.Is(err, ErrLost) {
		m.countLoss()
	}
	if err == nil && failed == nil {
		log.Info("Left the ring")
	}
	return errors.Join(err, failed)
}

// warnUnnoticed logs a hint if no sharder takes notice of this shard.
func (s *Shard) warnUnnoticed(ctx context.Context, current *membership.Member) {
	if current.WaitUnnoticed(ctx) {
		logf.FromContext(ctx).Info("No sharder has added this shard to the ring. With an external sharder: does it run, is there a ControllerRing " +
			"of this name, and does it accept shards from this namespace? Else: is an instance elected as the in-process sharder? See also the events of the lease")
	}
}

// work runs all that is sharded. When ctx ends, the objects are handed over before that ends.
func (s *Shard) work(ctx, held context.Context, current *membership.Member) error {
	working, stop := context.WithCancelCause(held)
	defer stop(nil)
	if err := s.followOwned(working); err != nil {
		return fmt.Errorf("watching the objects of this shard: %w", err)
	}
	group := s.startAll(working, stop)
	group.Go(func() { s.owned.Run(working) })
	select {
	case <-ctx.Done():
		s.leave(working, current)
	case <-working.Done(): // the Lease is lost, or something has failed
	}
	failed := context.Cause(working)
	stop(nil)
	group.Wait()
	if errors.Is(failed, ErrLost) { // Lease.Run returns that itself
		return nil
	}
	return failed
}

// startAll begins all that was added. A failure stops the rest.
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

// leave hands every object over to its next owner.
func (s *Shard) leave(ctx context.Context, current *membership.Member) {
	if s.options.HandOver < 0 {
		return
	}
	log := logf.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.options.HandOver)
	defer cancel()
	if err := current.Announce(ctx); err != nil {
		log.Error(err, "Objects may be assigned to this shard while it leaves")
	}
	released, complete := s.owned.ReleaseAll(ctx)
	log.Info("Handed objects over", "objects", released, "complete", complete)
}
