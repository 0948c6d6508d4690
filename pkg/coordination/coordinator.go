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

	// opening and taking are held while a session is opened and while the lock is taken: the store may be slow.
	opening, taking sync.Mutex

	actions []Action
	// maxOperations is how many entries one transaction changes at most.
	maxOperations int
	// retryAfter is the backoff of an action after consecutive failures.
	retryAfter func(failures int) time.Duration

	mu sync.Mutex
	// settings hold: this process has applied them.
	settings Settings
	// left is when this process saw last that nothing of its participant is in the store, zero if it did not.
	left    time.Time
	session kv.Session
	// former are the sessions that this process has lost.
	former map[string]bool
	// grant is the last one. If doubtful is set there may be a lock of this process without one.
	grant      *lockGrant
	doubtful   bool
	registered registration
	seen       map[question]seen
	// run is what Reconcile carries out at the moment, and doing what it has found out about the present step.
	run   run
	doing doing
	// errorsInARow is how many calls of Reconcile in a row have returned an error.
	errorsInARow int
	// givenUp are the actions that were given up in local mode, where nobody writes that down.
	givenUp map[Action]givenUp
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
		class: o.Class, clock: o.Clock, seen: map[question]seen{}, givenUp: map[Action]givenUp{}, former: map[string]bool{},
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

// attempts are how often a transaction is tried when others write at the same time.
const attempts = 10

// retry does something again after a conflict: from reading on.
func (c *Coordinator) retry(ctx context.Context, do func() error) error {
	var err error
	for range attempts {
		if err = do(); !errors.Is(err, kv.ErrConflict) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("tried %d times: %w", attempts, err)
}

// ignoreConflict lets the next Reconcile look at what somebody else has written.
func ignoreConflict(err error) error {
	if errors.Is(err, kv.ErrConflict) {
		return nil
	}
	return err
}

// live returns the session of this process, a new one if the last one is lost.
func (c *Coordinator) live(ctx context.Context) (kv.Session, error) {
	c.opening.Lock()
	defer c.opening.Unlock()
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
		c.former[c.session.ID()] = true
	}
	c.session = session
	return session, nil
}

func (c *Coordinator) lastSession() kv.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// rest ends the session of a process in local mode after it has released the lock: it needs no session until it needs the lock
// again. If that fails, the session ends by itself.
func (c *Coordinator) rest(ctx context.Context) {
	c.taking.Lock()
	defer c.taking.Unlock()
	c.mu.Lock()
	busy := c.settings.Mode == Global || c.grant != nil && c.grant.Held()
	c.mu.Unlock()
	if !busy {
		_ = c.Close(ctx)
	}
}

// Close ends the session of this process, which removes its registration and its lock at once. The entries of the participant
// stay for its next process.
func (c *Coordinator) Close(ctx context.Context) error {
	c.opening.Lock()
	defer c.opening.Unlock()
	c.mu.Lock()
	session := c.session
	c.session, c.registered.written, c.doubtful = nil, false, false
	c.mu.Unlock()
	if session == nil {
		return nil
	}
	return session.Close(ctx)
}
