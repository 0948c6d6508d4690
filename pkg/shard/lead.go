package shard

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// candidacy is what this process takes part in its manager's election with. It notes for how long the
// leadership is certain: leader election itself lets a leader that was paused go on for as long as its
// renew deadline before it ends it.
type candidacy struct {
	resourcelock.Interface
	*tenure
	lease           *resourcelock.LeaseLock
	namespace, name string
	// spare is how long the Lease goes on after it is lost.
	spare time.Duration
	// working is how many reconciles and runnables of the leader have not ended.
	working atomic.Int64

	begin sync.Once
	ended chan struct{} // closed when the leadership was given up in good order
	end   sync.Once
}

// elect prepares the manager's election, if the mode needs one. Names and times that its user has chosen stay.
func (s *Shard) elect(options *manager.Options) error {
	mode := s.options.Mode
	if mode == ModeAlone {
		options.LeaderElection = false
	}
	labels := s.electionLabels(options.LeaderElectionLabels)
	if options.LeaderElection {
		options.LeaderElectionLabels = labels
	}
	if !mode.elects() {
		return nil
	}
	name := s.Ring() + "-leader"
	if mode.sharder() {
		name = s.Ring() + "-sharder"
	}
	options.LeaderElection = true
	options.LeaderElectionID = cmp.Or(options.LeaderElectionID, name)
	options.LeaderElectionNamespace = cmp.Or(options.LeaderElectionNamespace, s.options.Namespace)
	options.LeaseDuration = cmp.Or(options.LeaseDuration, &s.options.LeaseDuration)
	options.RenewDeadline = cmp.Or(options.RenewDeadline, &s.options.RenewDeadline)
	options.RetryPeriod = cmp.Or(options.RetryPeriod, &s.options.RetryPeriod)
	// The next one can begin at once: the process ends when the manager does. What is still at work keeps the
	// Lease from being released.
	options.LeaderElectionReleaseOnCancel = true
	if mode == ModeLead && options.Controller.EnableWarmup == nil {
		options.Controller.EnableWarmup = new(true)
	}
	made, err := s.candidate(options, labels)
	if err != nil {
		return err
	}
	made.namespace, made.name = options.LeaderElectionNamespace, options.LeaderElectionID
	made.spare = *options.LeaseDuration - *options.RenewDeadline
	s.candidacy = made
	options.LeaderElectionResourceLockInterface = made
	return nil
}

// electionLabels tell people and programs what the leader is to the ring. Labels stay on a Lease: what the leader
// was when the operator ran in another mode has to be taken back.
func (s *Shard) electionLabels(others map[string]string) map[string]string {
	labels := map[string]string{shardingv1alpha1.LabelSharder: "", shardingv1alpha1.LabelLeader: ""}
	switch mode := s.options.Mode; {
	case mode.sharder():
		labels[shardingv1alpha1.LabelSharder] = s.Ring()
	case mode == ModeLead:
		labels[shardingv1alpha1.LabelLeader] = s.Ring()
	}
	for key, value := range others {
		if labels[key] == "" {
			labels[key] = value
		}
	}
	return labels
}

func newCandidacy(deadline time.Duration, lock resourcelock.Interface) *candidacy {
	return &candidacy{Interface: lock, tenure: newTenure(deadline), ended: make(chan struct{})}
}

func (s *Shard) candidate(options *manager.Options, labels map[string]string) (*candidacy, error) {
	if lock := options.LeaderElectionResourceLockInterface; lock != nil {
		return newCandidacy(*options.RenewDeadline, lock), nil
	}
	config := rest.CopyConfig(s.config)
	// One request that hangs must not be the end of a leader.
	config.Timeout = max(time.Second, *options.RenewDeadline/2)
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the election: %w", err)
	}
	lease := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: options.LeaderElectionNamespace, Name: options.LeaderElectionID},
		Client:     s.telling(leases),
		LockConfig: resourcelock.ResourceLockConfig{Identity: s.Name() + "_" + string(uuid.NewUUID())},
		Labels:     labels,
	}
	c := newCandidacy(*options.RenewDeadline, lease)
	c.lease = lease
	return c, nil
}

// Get implements resourcelock.Interface.
func (c *candidacy) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := c.Interface.Get(ctx)
	if err == nil && c.renewed.Load() != nil && record.HolderIdentity != c.Identity() {
		// Another one leads. Leader election would try to get it back and, when it ends, release the Lease: it
		// only looks at whom it saw last, and that was this process.
		c.lose()
		return nil, nil, ErrLost
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (c *candidacy) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.write(ctx, record, c.Interface.Create)
}

// Update implements resourcelock.Interface.
func (c *candidacy) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.write(ctx, record, c.Interface.Update)
}

func (c *candidacy) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if record.HolderIdentity != c.Identity() && (!c.valid() || c.working.Load() > 0) {
		// Leader election gives a Lease back also when it could not renew it, and controller-runtime when its
		// patience is over. As long as anything may be at work the Lease has to run out.
		return fmt.Errorf("the lease %s is not released before all work has ended", c.Describe())
	}
	began := time.Now()
	if err := write(ctx, record); err != nil {
		return err
	}
	if record.HolderIdentity != c.Identity() { // it is given up
		c.end.Do(func() { close(c.ended) })
		return nil
	}
	c.renew(began)
	c.begin.Do(func() {
		counting, stop := context.WithCancel(context.WithoutCancel(ctx))
		go func() {
			defer stop()
			select {
			case <-c.ended:
			case <-c.lost:
			}
		}()
		go c.expire(counting)
	})
	return nil
}

// watch ends the manager when its leadership is lost.
type watch struct{ *Shard }

var _ manager.LeaderElectionRunnable = watch{}

// NeedLeaderElection is false: it has to run before there is a leader.
func (watch) NeedLeaderElection() bool { return false }

// Start watches until ctx ends.
func (w watch) Start(ctx context.Context) error {
	if !w.options.Mode.spread() || !w.options.Mode.works() {
		// As one who works, or waits to, warm caches are all that it takes.
		if err := w.warmUp(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		w.joined.Store(true)
	}
	var lost <-chan struct{}
	if w.candidacy != nil {
		lost = w.candidacy.lost
	}
	select {
	case <-ctx.Done():
		return nil
	case <-lost:
		w.lose()
		return ErrLost
	}
}

// warm notes a kind that a leader reads.
func (s *Shard) warm(example client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warmed = append(s.warmed, example)
}

// warmUp waits until the caches have all that a leader reads.
func (s *Shard) warmUp(ctx context.Context) error {
	s.mu.Lock()
	examples := s.warmed
	s.mu.Unlock()
	for _, example := range examples {
		if _, err := s.whole.GetInformer(ctx, example); err != nil && ctx.Err() == nil {
			return fmt.Errorf("reading objects of the kind of %T, which this instance may not be allowed to list and watch: %w", example, err)
		}
	}
	return nil
}

// elected runs all that was added, while this process leads.
type elected struct{ *Shard }

var _ manager.LeaderElectionRunnable = elected{}

// NeedLeaderElection is true.
func (elected) NeedLeaderElection() bool { return true }

// Start runs until ctx ends.
func (e elected) Start(ctx context.Context) error {
	if e.candidacy != nil {
		leading, end := e.candidacy.within(ctx)
		defer end()
		ctx = leading
		e.candidacy.working.Add(1)
		defer e.candidacy.working.Add(-1)
	}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	group := e.startAll(working, stop)
	<-working.Done()
	failed := context.Cause(working)
	group.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return failed
}

// leading is a reconciler that works only while this process leads for sure.
type leading struct {
	reconcile.Reconciler
	*candidacy
}

// Reconcile implements reconcile.Reconciler.
func (l *leading) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	l.working.Add(1)
	defer l.working.Add(-1)
	running, stop := l.within(ctx)
	defer stop()
	if !l.valid() {
		// The last thing to look at: a process that was paused may wake up right here.
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return l.Reconciler.Reconcile(running, request)
}
