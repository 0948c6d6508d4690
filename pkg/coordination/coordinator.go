package coordination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// DefaultSessionDuration is how long a participant counts as alive after its last renewal.
const DefaultSessionDuration = 15 * time.Second

// Options configure a Coordinator. They do not change while it runs; see Settings for those that do.
type Options struct {
	// Store is the store that all participants share.
	Store kv.Store
	// System is the name of the managed system, the same for all participants.
	System string
	// Name is the unique name of this participant. It stays the same across restarts. If several processes have the name, only
	// the newest one works.
	Name string
	// Root is the prefix of the keys of all systems. It defaults to DefaultRoot.
	Root string
	// SessionDuration is how long this participant counts as alive after its last renewal. It defaults to
	// DefaultSessionDuration.
	SessionDuration time.Duration
	// Class returns the class of a member. Members of different classes do not wait for each other. Without it, all members
	// are of one class.
	Class func(MemberID) string
	// Actions are the actions that Reconcile begins, the most urgent first.
	Actions []Action
	// Clock is for tests.
	Clock clock.PassiveClock
}

// Coordinator is one process of a participant in the coordination of one system. Its methods are safe for concurrent use, except
// that calls of Reconcile and Leave must not overlap.
type Coordinator struct {
	store    kv.Store
	keys     keys
	system   string
	name     string
	duration time.Duration
	class    func(MemberID) string
	clock    clock.PassiveClock
	metrics  *metrics

	// openMu and takeMu are locked while a session is opened and while the lock is taken: the store may be slow.
	openMu, takeMu sync.Mutex

	actions []Action
	// maxOperations is the maximum number of entries that one transaction changes.
	maxOperations int
	// retryAfter is the backoff of an action after consecutive failures.
	retryAfter func(failures int) time.Duration

	mu sync.Mutex
	// settings are the settings that this process has applied.
	settings Settings
	// leftAt is when this process last saw that the store has no entries of its participant, or zero.
	leftAt  time.Time
	session kv.Session
	// lostSessions are the IDs of the sessions that this process has lost.
	lostSessions map[string]bool
	// grant is the latest grant. If lockUncertain is set, the store may have a lock of this process without a grant.
	grant         *lockGrant
	lockUncertain bool
	registered    registration
	observed      map[barrierKey]observation
	// currentRun is the action that Reconcile carries out, or nil, and stepState the state of its current step.
	currentRun actionRun
	stepState  stepState
	// consecutiveErrors is the number of consecutive calls of Reconcile that returned an error.
	consecutiveErrors int
	// localFailures are the actions that were given up in local mode, which the store does not record.
	localFailures map[Action]localFailure
}

// New returns a Coordinator. It does not access the store yet.
func New(o Options) (*Coordinator, error) {
	if o.Store == nil {
		return nil, errors.New("Options.Store is empty: set it to one of etcdstore or kubestore")
	}
	if err := errors.Join(checkSystem(o.System), checkSegment("Options.Name", o.Name)); err != nil {
		return nil, err
	}
	for _, action := range o.Actions {
		if err := action.check(); err != nil {
			return nil, fmt.Errorf("Options.Actions: %w", err)
		}
	}
	if o.Root == "" {
		o.Root = DefaultRoot
	}
	if strings.HasSuffix(o.Root, "/") {
		return nil, fmt.Errorf("Options.Root %q ends with a slash: remove it", o.Root)
	}
	if o.SessionDuration < 0 {
		return nil, fmt.Errorf("Options.SessionDuration is %s: set it to more than 0, or leave it out for %s", o.SessionDuration, DefaultSessionDuration)
	}
	if o.SessionDuration == 0 {
		o.SessionDuration = DefaultSessionDuration
	}
	if o.Class == nil {
		o.Class = func(MemberID) string { return "" }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Coordinator{
		store: o.Store, keys: newKeys(o.Root, o.System), system: o.System, name: o.Name, duration: o.SessionDuration,
		class: o.Class, clock: o.Clock, observed: map[barrierKey]observation{}, localFailures: map[Action]localFailure{}, lostSessions: map[string]bool{},
		actions: slices.Clone(o.Actions), maxOperations: maxOperations, retryAfter: retryAfter,
		metrics: newMetrics(o.System, o.Name),
	}
	return c, nil
}

// Name returns the name of the participant.
func (c *Coordinator) Name() string { return c.name }

// currentSettings returns the settings that were applied last.
func (c *Coordinator) currentSettings() Settings {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settings.clone()
}

// Changed sends a signal after every change of the system's entries, until the context ends.
func (c *Coordinator) Changed(ctx context.Context) <-chan struct{} {
	return c.store.Watch(ctx, c.keys.root)
}

// maxAttempts is how often a transaction is tried when other processes write at the same time.
const maxAttempts = 10

// retry calls a function again after a conflict. The function has to read again.
func (c *Coordinator) retry(ctx context.Context, do func() error) error {
	var err error
	for range maxAttempts {
		if err = do(); !errors.Is(err, kv.ErrConflict) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("tried %d times: %w", maxAttempts, err)
}

// ignoreConflict drops a conflict: the next Reconcile reads the write of the other process.
func ignoreConflict(err error) error {
	if errors.Is(err, kv.ErrConflict) {
		return nil
	}
	return err
}

// openSession returns the session of this process. It opens a new one if the last one is lost.
func (c *Coordinator) openSession(ctx context.Context) (kv.Session, error) {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	if session := c.lastSession(); session != nil {
		select {
		case <-session.Lost():
		default:
			return session, nil
		}
	}
	session, err := c.store.Open(ctx, c.name, c.duration)
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != nil {
		c.lostSessions[c.session.ID()] = true
	}
	c.session = session
	return session, nil
}

func (c *Coordinator) lastSession() kv.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// closeIdleSession closes the session of a process in local mode after it has released the lock: it needs a session only for the
// lock. If that fails, the session expires.
func (c *Coordinator) closeIdleSession(ctx context.Context) {
	c.takeMu.Lock()
	defer c.takeMu.Unlock()
	c.mu.Lock()
	inUse := c.settings.Mode == Global || c.grant != nil && c.grant.Held()
	c.mu.Unlock()
	if !inUse {
		_ = c.Close(ctx)
	}
}

// Close ends the session of this process, which removes its registration and its lock at once. The entries of the participant
// stay for its next process.
func (c *Coordinator) Close(ctx context.Context) error {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	c.mu.Lock()
	session := c.session
	c.session, c.registered.written, c.lockUncertain = nil, false, false
	c.mu.Unlock()
	if session == nil {
		return nil
	}
	return session.Close(ctx)
}
