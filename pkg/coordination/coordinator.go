package coordination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// DefaultSession is how long the others still believe in an instance that says nothing more.
const DefaultSession = 15 * time.Second

// Options say who an instance is, and how it decides.
type Options struct {
	// Store is where the instances meet.
	Store Store
	// System names what they manage together.
	System string
	// Name is that of this instance, and of no other one.
	Name string
	// Last are the settings that were applied last, by this process or by one before it: what has to be cleaned up
	// or migrated when they change. Keep them where a restart finds them, in the status of a resource.
	Last Settings
	// Root is where the keys of all systems are, DefaultRoot if it is not set.
	Root string
	// Session is how long this instance lives for the others after its last sign, DefaultSession if it is not set.
	Session time.Duration
	// Class tells of which class a member is. Members of different classes do not wait for each other. Without it
	// all are of one class.
	Class func(MemberID) string
	// Policies say how patient an action is. Without one it waits for all, and has no quiet window.
	Policies map[Action]Policy
	// Clock is for tests.
	Clock clock.PassiveClock
}

// Coordinator is an instance's part in the coordination of one system. Its methods may be called at the same
// time.
type Coordinator struct {
	store    Store
	keys     keys
	system   string
	name     string
	duration time.Duration
	class    func(MemberID) string
	clock    clock.PassiveClock
	metrics  *metrics

	// opening and taking are held while a session is opened and while the lock is taken: the store may be slow.
	opening, taking sync.Mutex

	mu       sync.Mutex
	policies map[Action]Policy
	settings Settings
	session  Session
	// grant is the last one. If doubtful is set there may be a lock of this process without one.
	grant    *Grant
	doubtful bool
	// registered is what was written of this instance, and for which session.
	registered, registeredFor string
	seen                      map[question]seen
}

// New makes the part of an instance in the coordination of a system. It touches nothing yet.
func New(o Options) (*Coordinator, error) {
	if o.Store == nil {
		return nil, errors.New("there is no store")
	}
	if err := errors.Join(checkSystem(o.System), checkSegment("the instance's name", o.Name)); err != nil {
		return nil, err
	}
	if err := o.Last.check(); err != nil {
		return nil, fmt.Errorf("in the last settings: %w", err)
	}
	if o.Root == "" {
		o.Root = DefaultRoot
	}
	if o.Session == 0 {
		o.Session = DefaultSession
	}
	if o.Class == nil {
		o.Class = func(MemberID) string { return "" }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Coordinator{
		store: o.Store, keys: newKeys(o.Root, o.System), system: o.System, name: o.Name, duration: o.Session,
		class: o.Class, clock: o.Clock, settings: o.Last.clone(), seen: map[question]seen{},
		metrics: newMetrics(o.System, o.Name),
	}
	if err := c.SetPolicies(o.Policies); err != nil {
		return nil, err
	}
	return c, nil
}

// Name is that of the instance.
func (c *Coordinator) Name() string { return c.name }

// Settings are those that were applied last.
func (c *Coordinator) Settings() Settings {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settings.clone()
}

// SetPolicies replaces the policies, for people who change their mind.
func (c *Coordinator) SetPolicies(policies map[Action]Policy) error {
	for action, policy := range policies {
		if err := policy.check(); err != nil {
			return fmt.Errorf("in the policy of %s: %w", action, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policies = maps.Clone(policies)
	return nil
}

func (c *Coordinator) policy(action Action) Policy {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.policies[action]
}

// Changed sends a signal whenever somebody has changed something of the system, until the context ends.
func (c *Coordinator) Changed(ctx context.Context) <-chan struct{} {
	return c.store.Watch(ctx, c.keys.root)
}

// attempts are how often a transaction is tried when others write at the same time.
const attempts = 10

// retry does something again after a conflict: from reading on.
func (c *Coordinator) retry(ctx context.Context, do func() error) error {
	var err error
	for range attempts {
		if err = do(); !errors.Is(err, ErrConflict) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("tried %d times: %w", attempts, err)
}

// live returns the session of this process, a new one if the last one is lost.
func (c *Coordinator) live(ctx context.Context) (Session, error) {
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
	c.session = session
	return session, nil
}

func (c *Coordinator) lastSession() Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// rest ends the session of an instance in local mode that has given the lock back: it says nothing until it needs the lock
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

// Close ends this process's part: what it has registered and the lock that it holds go at once, its entries
// stay, for the process that comes next.
func (c *Coordinator) Close(ctx context.Context) error {
	c.opening.Lock()
	defer c.opening.Unlock()
	c.mu.Lock()
	session := c.session
	c.session, c.registered, c.doubtful = nil, "", false
	c.mu.Unlock()
	if session == nil {
		return nil
	}
	return session.Close(ctx)
}
