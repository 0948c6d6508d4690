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
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/membership"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/watches"
)

// Shard is this process as a member of a ring. NewManager makes a Shard with its manager. To make the
// manager yourself, call New, Configure with the manager's options, and Join with the manager.
//
// It connects two packages to the manager: membership, which knows whether this process is a member,
// and ownership, which knows the objects that it owns.
type Shard struct {
	options Options
	config  *rest.Config

	lease  *membership.Lease
	member atomic.Pointer[membership.Member] // while this process is a member
	owned  *ownership.Ownership
	// published counts the objects on the Lease, once this shard watches them.
	published atomic.Pointer[objectCounts]
	// election is the manager's election, or nil if the mode needs none.
	election *election

	manager manager.Manager
	cache   *splitCache // set when the manager makes its caches; nil in a mode that does not shard
	mapper  meta.RESTMapper

	mu        sync.Mutex
	warmups   []client.Object // kinds that a leader reads
	watched   []watchedKind   // sharded kinds of Watches
	runnables []manager.Runnable
	running   bool

	checks  sync.Once // checkStart
	refusal error     // its result

	configured      bool
	electionEnabled bool          // in the manager
	shutdownTimeout time.Duration // the manager's GracefulShutdownTimeout; a negative one means no limit
	joined          atomic.Bool
	// ended is canceled when the Lease is lost or a failure must stop the manager. Its cause says why.
	ended context.Context //nolint:containedctx // it is the lifetime of this shard
	end   context.CancelCauseFunc
}

// New returns a shard that joins its ring when its manager starts. It writes nothing before that.
func New(config *rest.Config, options Options) (*Shard, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	// A rate limit that is meant for reconcilers must not delay the renewal of the Lease.
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for leases: %w", err)
	}
	s := &Shard{
		options: options,
		config:  config,
		lease: &membership.Lease{
			Client: leases, Ring: options.Ring, Namespace: options.Namespace, Name: options.Name, Times: options.times(),
		},
	}
	s.lease.RenewalAnnotations = s.renewalAnnotations
	s.ended, s.end = context.WithCancelCause(context.Background())
	s.owned = ownership.New(ownership.Options{
		Ring: options.Ring, Shard: options.Name, Objects: &cachedObjects{s}, Peers: &membership.Peers{Lease: s.lease},
		GracePeriod: options.DrainGrace, ConcurrentReleases: options.MaxConcurrentReleases, ObserveRelease: s.observeRelease,
	})
	return s, s.lease.Validate()
}

// Name returns the name of this shard.
func (s *Shard) Name() string { return s.options.Name }

// Ring returns the name of the ring that this shard joins.
func (s *Shard) Ring() string { return s.options.Ring }

// Selector selects the objects that this shard owns.
func (s *Shard) Selector() labels.Selector { return s.owned.Selector() }

// isMember reports whether this process is a member of the ring right now.
func (s *Shard) isMember() bool {
	member := s.member.Load()
	return member != nil && member.Valid()
}

// Ready is a check for a manager's AddReadyzCheck. It fails until this shard is a member of its ring
// or, in a process that is not a shard, until the caches are filled.
func (s *Shard) Ready(*http.Request) error {
	if !s.joined.Load() {
		if !s.options.Mode.sharded() || !s.options.Mode.reconciles() {
			return errors.New("the caches of this process are not filled yet")
		}
		return fmt.Errorf("shard %q has not joined ring %q yet", s.Name(), s.Ring())
	}
	return nil
}

// Configure changes the options of a manager: its caches and its client have only the objects of
// sharded kinds that this shard owns, and it takes part in the election that the mode needs.
func (s *Shard) Configure(options *manager.Options) error {
	s.shutdownTimeout = defaultGracefulShutdown
	if options.GracefulShutdownTimeout != nil {
		s.shutdownTimeout = *options.GracefulShutdownTimeout
	}
	s.configured = true
	watches.Configure(&options.Cache)
	if s.options.Mode.sharded() {
		s.splitCaches(options)
	}
	s.selectCachedNamespaces(options.Cache)
	err := s.configureElection(options)
	s.electionEnabled = options.LeaderElection
	return err
}

// splitCaches restricts a manager's caches and client to the objects of sharded kinds that this shard
// owns.
func (s *Shard) splitCaches(options *manager.Options) {
	newCache, newClient := options.NewCache, options.NewClient
	if newCache == nil {
		newCache = cache.New
	}
	if newClient == nil {
		newClient = client.New
	}
	options.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		split, err := newSplitCache(newCache, config, options, s.Selector())
		if err == nil {
			split.onRefusal, s.cache = func(err error) { s.end(err) }, split
		}
		return split, err
	}
	options.NewClient = func(config *rest.Config, options client.Options) (client.Client, error) {
		inner, err := newClient(config, options)
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
		return &adoptingClient{Client: inner, owned: s.owned}, nil
	}
	if s.options.HandoverTimeout == 0 {
		s.options.HandoverTimeout = defaultHandoverTimeout
		if s.shutdownTimeout >= 0 { // a negative timeout means no limit
			s.options.HandoverTimeout = s.shutdownTimeout * 5 / 6
		}
	}
}

// Join adds the shard to a manager that was made with options from Configure. Start the manager that
// it returns: unlike mgr, it stops in time even if a reconciler ignores its context.
func (s *Shard) Join(mgr manager.Manager) (*Manager, error) {
	if !s.configured || s.options.Mode.sharded() && s.cache == nil {
		return nil, errors.New("the manager is not configured for this shard: call Configure with its options before you make it")
	}
	writer, err := client.New(s.config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("creating a client for labels: %w", err)
	}
	s.owned.SetWriter(writer)
	s.manager, s.mapper = mgr, mgr.GetRESTMapper()
	s.connectElection(mgr)
	errs := []error{register(), mgr.Add(leadershipMonitor{s})}
	if s.options.Mode.canBeSharder() {
		errs = append(errs, s.addSharder(mgr))
	}
	switch mode := s.options.Mode; {
	case !mode.sharded():
		errs = append(errs, mgr.Add(leaderRunnables{s}))
	case mode.reconciles():
		errs = append(errs, mgr.Add(memberRunnables{s}))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Manager{Manager: mgr, shard: s}, nil
}

// Add adds a runnable, such as a controller that was made without ControllerManagedBy. It runs while
// this process is a member of the ring.
func (s *Shard) Add(runnable manager.Runnable) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return errors.New("the shard is already running: add all runnables before the manager starts")
	}
	s.runnables = append(s.runnables, runnable)
	return nil
}
