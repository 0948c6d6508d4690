package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ringmaster-project/ringmaster/internal/kubeversion"
)

// Manager is a manager that is a shard of a ring. Its controllers that ControllerManagedBy makes
// work on this shard's objects while it holds its Lease; all others work as in any manager, on all
// objects and while it leads.
type Manager struct {
	manager.Manager
	shard *Shard
}

// NewManager makes a manager that joins a ring when it starts, or takes part in an election: the mode
// decides, and nothing else needs to change with it.
func NewManager(config *rest.Config, options manager.Options, ring Options) (*Manager, error) {
	shard, err := New(config, ring)
	if err != nil {
		return nil, err
	}
	if err := shard.Configure(&options); err != nil {
		return nil, err
	}
	made, err := manager.New(config, options)
	if err != nil {
		return nil, err
	}
	return shard.Join(made)
}

// Shard is this process as a member of the ring.
func (m *Manager) Shard() *Shard { return m.shard }

// Start runs everything until ctx ends. It returns an error when the shard's Lease is lost, another
// process has its name, the API server is older than sharding needs, or something else fails; the
// process should end then.
//
// A reconciler that does not heed its context must not go on after the Lease has run out. So Start
// does not wait for it longer than that.
func (m *Manager) Start(ctx context.Context) error {
	if !m.shard.options.Mode.spread() {
		return m.start(ctx)
	}
	// Objects that are handed over are told apart from their older versions by resourceVersion.
	return kubeversion.Guard(ctx, kubeversion.Ask(m.shard.config), m.start)
}

func (m *Manager) start(ctx context.Context) error {
	if err := m.shard.resolveWatched(); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- m.Manager.Start(running) }()
	select {
	case err := <-ended:
		return err
	case <-m.shard.ended.Done():
		return m.ended(ended, stop)
	case <-ctx.Done():
	}
	var over <-chan time.Time
	if m.shard.graceful >= 0 { // negative is as long as it takes
		// controller-runtime observes its own limit, but not while its caches wait for a first list.
		limit := time.NewTimer(m.shard.graceful + shutdownMargin)
		defer limit.Stop()
		over = limit.C
	}
	select {
	case err := <-ended:
		return err
	case <-m.shard.ended.Done():
		return m.ended(ended, stop)
	case <-over:
		return fmt.Errorf("not all work has ended within %s", m.shard.graceful)
	}
}

// shutdownMargin is how much longer than its graceful shutdown timeout a manager may take to end.
const shutdownMargin = 5 * time.Second

// ended stops the manager and waits for its end, after a lost Lease not for longer than that lasts. It always returns why.
func (m *Manager) ended(ended <-chan error, stop func()) error {
	cause := context.Cause(m.shard.ended)
	limit := max(m.shard.graceful, 0) + shutdownMargin
	if errors.Is(cause, ErrLost) {
		limit = m.shard.spare()
	}
	stop()
	err := within(limit, ended, errors.New("not all work has ended"))
	if errors.Is(err, cause) {
		return err
	}
	return errors.Join(cause, err)
}

// within waits for an end for a limited time.
func within(limit time.Duration, ended <-chan error, otherwise error) error {
	left := time.NewTimer(limit)
	defer left.Stop()
	select {
	case err := <-ended:
		return err
	case <-left.C:
		return otherwise
	}
}

// Unsharded is the same manager for controllers that work on all objects also of sharded kinds, while
// they lead. Its cache and client have the objects of all shards.
func (m *Manager) Unsharded() (manager.Manager, error) {
	if m.shard.cache == nil { // nothing is sharded
		return m, nil
	}
	all, err := m.shard.cache.newClient(m.shard.cache.all)
	if err != nil {
		return nil, err
	}
	return &unsharded{Manager: m, cache: m.shard.cache.all, client: all}, nil
}

// Add implements manager.Manager. A controller that was not built with ControllerManagedBy must not watch a sharded kind: it
// would see a part of the objects, in the leader only.
func (m *Manager) Add(runnable manager.Runnable) error {
	controller, is := runnable.(controllerRunnable)
	if !is {
		return m.Manager.Add(runnable)
	}
	if wrongBuilder.Swap(false) {
		return errors.New(errWrongBuilder)
	}
	if m.shard.cache != nil {
		m.shard.warnWithoutElection(controller)
	}
	return m.Manager.Add(&ordinaryController{controller, m.shard.election})
}

// controllerRunnable is a controller of any request type.
type controllerRunnable interface {
	manager.Runnable
	manager.LeaderElectionRunnable
	Warmup(ctx context.Context) error
	GetLogger() logr.Logger
}

// ordinaryController is a controller that is not sharded.
type ordinaryController struct {
	controllerRunnable
	election *election // of the manager, or nil
}

// Start implements manager.Runnable. The Lease of an election is not released before the controller has ended.
func (o *ordinaryController) Start(ctx context.Context) error {
	if o.election != nil && o.NeedLeaderElection() {
		leading, done := o.election.Work(ctx)
		defer done()
		ctx = leading
	}
	return o.controllerRunnable.Start(context.WithValue(ctx, ordinaryKey{}, true))
}

// Warmup fills the caches before the controller starts.
func (o *ordinaryController) Warmup(ctx context.Context) error {
	return o.controllerRunnable.Warmup(context.WithValue(ctx, ordinaryKey{}, true))
}

// warnWithoutElection logs a hint if an ordinary controller will run in every shard for lack of leader election.
func (s *Shard) warnWithoutElection(controller controllerRunnable) {
	if s.electionEnabled || !controller.NeedLeaderElection() {
		return
	}
	controller.GetLogger().Info("This controller is not sharded and will run in every instance at the same time: " +
		"set LeaderElection in manager.Options, or NeedLeaderElection to false if that is intended")
}

// unsharded is a manager that sees everything.
type unsharded struct {
	manager.Manager
	cache  cache.Cache
	client client.Client
}

func (u *unsharded) GetCache() cache.Cache                { return u.cache }
func (u *unsharded) GetClient() client.Client             { return u.client }
func (u *unsharded) GetFieldIndexer() client.FieldIndexer { return u.cache }
