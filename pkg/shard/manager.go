package shard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ringmaster-project/ringmaster/internal/kubeversion"
)

// Manager is a manager that is a shard of a ring. Its sharded controllers, made with
// ControllerManagedBy, reconcile the objects that this shard owns while it holds its Lease. All other
// controllers run as in any manager: they reconcile all objects while the manager leads.
type Manager struct {
	manager.Manager
	shard *Shard
}

// NewManager makes a manager that joins a ring or takes part in a leader election when it starts,
// depending on the mode. The operator's code is the same in all modes.
func NewManager(config *rest.Config, options manager.Options, ring Options) (*Manager, error) {
	shard, err := New(config, ring)
	if err != nil {
		return nil, err
	}
	if err := shard.Configure(&options); err != nil {
		return nil, err
	}
	mgr, err := manager.New(config, options)
	if err != nil {
		return nil, err
	}
	return shard.Join(mgr)
}

// Shard returns the shard that this manager runs.
func (m *Manager) Shard() *Shard { return m.shard }

// Start runs the manager until ctx ends. It returns an error when the shard's Lease is lost, another
// process has the shard's name, the API server is older than sharding requires, or a runnable fails.
// The process should exit then.
//
// A reconciler that ignores its context must not continue after the Lease has expired, so Start does
// not wait for it longer than that.
func (m *Manager) Start(ctx context.Context) error {
	if !m.shard.options.Mode.sharded() {
		return m.start(ctx)
	}
	// The handover compares resourceVersions, which older API servers do not guarantee to be comparable.
	return kubeversion.Guard(ctx, kubeversion.ServerVersion(m.shard.config), m.start)
}

func (m *Manager) start(ctx context.Context) error {
	if err := m.shard.checkStart(ctx); err != nil || ctx.Err() != nil { // before this process can be elected
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
		return m.shutDown(ended, stop)
	case <-ctx.Done():
	}
	var timedOut <-chan time.Time
	if m.shard.shutdownTimeout >= 0 { // a negative timeout means no limit
		// controller-runtime enforces this timeout, too, but not while its caches wait for a first list.
		limit := time.NewTimer(m.shard.shutdownTimeout + shutdownMargin)
		defer limit.Stop()
		timedOut = limit.C
	}
	select {
	case err := <-ended:
		return err
	case <-m.shard.ended.Done():
		return m.shutDown(ended, stop)
	case <-timedOut:
		return fmt.Errorf("the manager has not stopped within its graceful shutdown timeout of %s: check that all reconcilers and runnables heed their contexts", m.shard.shutdownTimeout)
	}
}

// defaultGracefulShutdown is controller-runtime's default, and that of pods.
const defaultGracefulShutdown = 30 * time.Second

// shutdownMargin is the time that a manager may take to stop beyond its graceful shutdown timeout.
const shutdownMargin = 5 * time.Second

// shutDown stops the manager, waits until it has stopped, and returns the cause. After the loss of a Lease
// it waits at most until the Lease expires.
func (m *Manager) shutDown(ended <-chan error, stop func()) error {
	cause := context.Cause(m.shard.ended)
	limit := m.shard.shutdownTimeout + shutdownMargin
	if m.shard.shutdownTimeout < 0 { // no limit, but a process must end after a failure
		limit = defaultGracefulShutdown + shutdownMargin
	}
	if cause == ErrLeaseLost { //nolint:errorlint // a runnable's own error may wrap it
		limit = m.shard.remainingAfterLoss()
	}
	stop()
	err := waitAtMost(limit, ended, fmt.Errorf("the manager has not stopped within %s: check that all reconcilers and runnables heed their contexts", limit))
	if errors.Is(err, cause) {
		return err
	}
	return errors.Join(cause, err)
}

// waitAtMost returns the result of ended, or timeoutErr if that takes longer than the limit.
func waitAtMost(limit time.Duration, ended <-chan error, timeoutErr error) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return timeoutErr
	}
}

// Unsharded returns the same manager for leader-elected controllers that need the objects of all shards.
// Its cache and client have all objects, also of sharded kinds.
func (m *Manager) Unsharded() (manager.Manager, error) {
	if m.shard.cache == nil { // the mode does not shard
		return m, nil
	}
	all, err := m.shard.cache.newClient(m.shard.cache.all)
	if err != nil {
		return nil, err
	}
	return &unsharded{Manager: m, cache: m.shard.cache.all, client: all}, nil
}

// Add implements manager.Manager. A controller that was not built with ControllerManagedBy must not
// watch a sharded kind: it would see only the objects that the leader owns as a shard.
func (m *Manager) Add(runnable manager.Runnable) error {
	controller, ok := runnable.(controllerRunnable)
	if !ok {
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

// name returns the name of the controller, or "" if it is not one of controller-runtime's, which have it in a
// field of a type that is not exported.
func (o *ordinaryController) name() string {
	controller := reflect.Indirect(reflect.ValueOf(o.controllerRunnable))
	if controller.Kind() != reflect.Struct {
		return ""
	}
	if field := controller.FieldByName("Name"); field.Kind() == reflect.String {
		return field.String()
	}
	return ""
}

// Start implements manager.Runnable. The election's Lease is not released before the controller has stopped.
func (o *ordinaryController) Start(ctx context.Context) error {
	if o.election != nil && o.NeedLeaderElection() {
		leading, done := o.election.Work(ctx)
		defer done()
		ctx = leading
	}
	return o.controllerRunnable.Start(context.WithValue(ctx, ordinaryKey{}, o.name()))
}

// Warmup fills the caches before the controller starts.
func (o *ordinaryController) Warmup(ctx context.Context) error {
	return o.controllerRunnable.Warmup(context.WithValue(ctx, ordinaryKey{}, o.name()))
}

// warnWithoutElection logs a warning if an ordinary controller will run in every shard, because leader
// election is disabled.
func (s *Shard) warnWithoutElection(controller controllerRunnable) {
	if s.electionEnabled || !controller.NeedLeaderElection() {
		return
	}
	controller.GetLogger().Info("This controller is not sharded and will run in every shard at the same time: " +
		"set LeaderElection in manager.Options, or NeedLeaderElection to false if that is intended")
}

// unsharded is a manager whose cache and client have the objects of all shards.
type unsharded struct {
	manager.Manager
	cache  cache.Cache
	client client.Client
}

func (u *unsharded) GetCache() cache.Cache                { return u.cache }
func (u *unsharded) GetClient() client.Client             { return u.client }
func (u *unsharded) GetFieldIndexer() client.FieldIndexer { return u.cache }
