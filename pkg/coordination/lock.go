package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

var (
	// errDenied is returned to a participant that may not hold the lock.
	errDenied = errors.New("this participant is on the deny list")
	// errFenced is returned for a write that is refused because the lock is lost.
	errFenced = errors.New("the lock is lost")
)

// heldError is returned when another participant holds the lock.
type heldError struct{ Lock Lock }

func (e *heldError) Error() string {
	return fmt.Sprintf("%s holds the lock with token %d", e.Lock.Holder, e.Lock.Token)
}

// lockGrant is a lock that is held. Its writes succeed only while it is held.
type lockGrant struct {
	// Token is larger than that of every grant before. Pass it to every component that can compare tokens.
	Token int64

	c      *Coordinator
	ctx    context.Context
	cancel context.CancelCauseFunc
	lock   Lock
	since  time.Time
	ending atomic.Bool // it is being released

	mu sync.Mutex
	// version is that of the lock's key.
	version int64
	// intent is what was written last, at a version of its key; nil when only the lock is held.
	intent        *Intent
	intentVersion int64
}

// lockAlone takes the lock for an action in local mode, but not while a participant may be carrying out an intent. It does not wait:
// it returns a heldError if another participant holds the lock.
func (c *Coordinator) lockAlone(ctx context.Context) (*lockGrant, error) {
	return c.take(ctx, func(view *View, _ int64) ([]kv.Condition, *Intent, error) {
		if slices.ContainsFunc(view.Participants, func(p Participant) bool { return p.Name == c.name }) {
			c.lookAgain() // an older process of this participant has come back
			return nil, nil, kv.ErrConflict
		}
		if view.Intent != nil && (len(view.Instances) > 0 || slices.ContainsFunc(view.Intent.members(), view.Accepted)) {
			return nil, nil, &heldError{Lock{Holder: view.Intent.Holder, Token: view.Intent.Token}}
		}
		return []kv.Condition{
			kv.IsAt(c.keys.intent(), view.entries[c.keys.intent()].Version), kv.NotWritten(c.keys.answers(), view.Revision),
		}, nil, nil
	})
}

// take takes the lock and writes an intent with it, in one transaction.
func (c *Coordinator) take(ctx context.Context, prepare func(view *View, token int64) ([]kv.Condition, *Intent, error)) (*lockGrant, error) {
	c.taking.Lock()
	defer c.taking.Unlock()
	session, err := c.live(ctx)
	if err != nil {
		return nil, err
	}
	view, err := c.view(ctx)
	if err != nil {
		return nil, err
	}
	if _, denied := view.Denied[c.name]; denied {
		return nil, fmt.Errorf("%w of %v", errDenied, view.Denied[c.name])
	}
	if held := view.Lock; held != nil && !c.ownerless(held) {
		if _, denied := view.Denied[held.Holder]; !denied {
			return nil, &heldError{*held}
		}
	}
	token := view.Token + 1
	conditions, intent, err := prepare(view, token)
	if err != nil {
		return nil, err
	}
	lock := Lock{Holder: c.name, Prefix: c.currentSettings().Prefix, Token: token, Session: session.ID(), Since: c.clock.Now().UTC()}
	t := kv.Transaction{
		If: append(conditions,
			kv.IsAt(c.keys.lock(), view.entries[c.keys.lock()].Version),
			kv.IsAt(c.keys.token(), view.entries[c.keys.token()].Version)),
		Then: []kv.Operation{kv.PutFor(session, c.keys.lock(), encode(lock)), kv.Put(c.keys.token(), strconv.FormatInt(token, 10))},
	}
	if intent != nil {
		t.Then = append(t.Then, kv.Put(c.keys.intent(), encode(intent)))
		if intent.ID == token { // a new intent, not a continued one
			t.Reserve = reserveOfIntent
		}
	}
	revision, err := c.store.Commit(ctx, t)
	if err != nil {
		if !errors.Is(err, kv.ErrConflict) {
			c.doubt(true) // a conflict does not change an earlier lock
		}
		return nil, fmt.Errorf("taking the lock of %s: %w", c.system, err)
	}
	g := &lockGrant{Token: token, c: c, lock: lock, since: c.clock.Now(), version: revision, intent: intent, intentVersion: revision}
	g.ctx, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.mu.Lock()
	c.grant, c.doubtful = g, false
	c.mu.Unlock()
	go g.guard(session)
	return g, nil
}

// ownerless reports whether a lock is this process's own although it holds no grant: the outcome of the transaction that took or
// released the lock is unknown.
func (c *Coordinator) ownerless(lock *Lock) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session != nil && lock.Session == c.session.ID() && (c.grant == nil || !c.grant.Held())
}

// giveBack removes an ownerless lock.
func (c *Coordinator) giveBack(ctx context.Context) error {
	c.taking.Lock()
	defer c.taking.Unlock()
	if !c.inDoubt() {
		return nil
	}
	found, err := c.store.Read(ctx, c.keys.lock())
	if err != nil {
		return err
	}
	entry, lock := found.Entries[c.keys.lock()], Lock{}
	if json.Unmarshal([]byte(entry.Value), &lock) == nil && c.ownerless(&lock) {
		_, err := c.store.Commit(ctx, kv.Transaction{
			If: []kv.Condition{kv.IsAt(c.keys.lock(), entry.Version)}, Then: []kv.Operation{kv.Delete(c.keys.lock())},
		})
		if err != nil && !errors.Is(err, kv.ErrConflict) {
			return fmt.Errorf("releasing the lock of %s: %w", c.system, err)
		}
	}
	c.doubt(false)
	return nil
}

func (c *Coordinator) inDoubt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubtful
}

// doubt notes whether there may be a lock of this process without an owner.
func (c *Coordinator) doubt(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubtful = is
}

// holds tells whether an entry is this process's lock.
func (c *Coordinator) holds(entry kv.Entry) bool {
	var lock Lock
	c.mu.Lock()
	defer c.mu.Unlock()
	return json.Unmarshal([]byte(entry.Value), &lock) == nil && c.session != nil && lock.Session == c.session.ID()
}

// lookAgain is how long the guard of a lock waits after it could not read it.
const lookAgain = time.Second

// guard ends the grant when its session or its lock is lost.
func (g *lockGrant) guard(session kv.Session) {
	changed := g.c.store.Watch(g.ctx, g.c.keys.lock())
	var again <-chan time.Time
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-session.Lost():
			g.lose()
			return
		case <-changed:
		case <-again:
		}
		again = nil
		found, err := g.c.store.Read(g.ctx, g.c.keys.lock())
		switch {
		case err != nil: // there may be no other signal
			again = time.After(lookAgain)
		case g.isLost(found.Entries[g.c.keys.lock()].Version):
			g.lose()
			return
		}
	}
}

// lockVersion is that of the lock's key.
func (g *lockGrant) lockVersion() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.version
}

// isLost reports whether another process or none holds the lock, given the version of its key that was read. An older version was
// read before this grant got its newest token.
func (g *lockGrant) isLost(version int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return version == 0 || version > g.version
}

// verifyLock ends the grant of this process if a view shows that its lock is gone: the guard may have missed it.
func (c *Coordinator) verifyLock(view *View) {
	c.mu.Lock()
	g := c.grant
	c.mu.Unlock()
	// A view from before the lock was taken shows another one.
	if g != nil && g.Held() && view.Revision >= g.lockVersion() && g.isLost(view.entries[c.keys.lock()].Version) {
		g.lose()
	}
}

// Raise gives this grant a token that is larger than all before and than the given one. The present step counts as ordered under
// it.
func (g *lockGrant) Raise(ctx context.Context, above int64) error {
	view, err := g.c.view(ctx)
	if err != nil {
		return err
	}
	if err := g.lost(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock() // the guard must not see a version that this grant does not know yet
	lock := g.lock
	lock.Token = max(view.Token, above) + 1
	conditions := []kv.Condition{kv.IsAt(g.c.keys.token(), view.entries[g.c.keys.token()].Version)}
	operations := []kv.Operation{
		{Key: g.c.keys.lock(), Value: encode(lock), Session: lock.Session}, kv.Put(g.c.keys.token(), strconv.FormatInt(lock.Token, 10)),
	}
	var next *Intent
	if g.intent != nil {
		intent := *g.intent
		intent.Token, next = lock.Token, &intent
		conditions = append(conditions, kv.IsAt(g.c.keys.intent(), g.intentVersion))
		operations = append(operations, kv.Put(g.c.keys.intent(), encode(next)))
	}
	revision, err := g.commitAt(ctx, g.version, conditions, operations...)
	switch {
	case err == nil:
		g.Token, g.lock, g.version, g.intent, g.intentVersion = lock.Token, lock, revision, next, revision
	case !errors.Is(err, kv.ErrConflict): // nobody knows which version the lock has
		g.c.doubt(true)
		g.lose()
	}
	return err
}

// lose ends a grant whose lock is gone. It does not count as lost if this process is releasing it.
func (g *lockGrant) lose() {
	if g.ctx.Err() == nil && !g.ending.Load() {
		g.c.metrics.fenced.Inc()
	}
	g.cancel(errFenced)
}

// Context ends when the lock is lost or released. Steps run with it.
func (g *lockGrant) Context() context.Context { return g.ctx }

// Held reports whether the lock is held, as far as this process knows.
func (g *lockGrant) Held() bool { return g.ctx.Err() == nil }

// Release releases the lock. The next holder continues an unfinished intent. If Release fails, the grant has ended nevertheless, and
// configure and take retry.
func (g *lockGrant) Release(ctx context.Context) error {
	if errors.Is(context.Cause(g.ctx), context.Canceled) {
		return nil // it was given back before
	}
	g.ending.Store(true) // so that the guard does not count it as lost
	err := g.commit(ctx, kv.Delete(g.c.keys.lock()))
	g.cancel(context.Canceled)
	switch {
	case errors.Is(err, errFenced):
		return nil // somebody else has it
	case err != nil:
		g.c.doubt(true)
		return err
	}
	g.c.rest(ctx)
	return nil
}

// commit writes something while the lock is held.
func (g *lockGrant) commit(ctx context.Context, operations ...kv.Operation) error {
	_, err := g.commitIf(ctx, nil, operations...)
	if errors.Is(err, kv.ErrConflict) {
		return g.fenced()
	}
	return err
}

// commitIf writes something while the lock is held and conditions are met, or else returns ErrConflict.
func (g *lockGrant) commitIf(ctx context.Context, conditions []kv.Condition, operations ...kv.Operation) (int64, error) {
	return g.commitAt(ctx, g.lockVersion(), conditions, operations...)
}

func (g *lockGrant) commitAt(ctx context.Context, version int64, conditions []kv.Condition, operations ...kv.Operation) (int64, error) {
	if err := g.lost(); err != nil {
		return 0, err
	}
	revision, err := g.c.store.Commit(ctx, kv.Transaction{
		If: append(conditions, kv.IsAt(g.c.keys.lock(), version)), Then: operations,
	})
	if err != nil {
		return 0, fmt.Errorf("writing under the token %d: %w", g.Token, err)
	}
	return revision, nil
}

// lost returns why the lock is no longer held, as far as this process knows.
func (g *lockGrant) lost() error {
	if cause := context.Cause(g.ctx); cause != nil {
		return fmt.Errorf("under the token %d: %w", g.Token, cause)
	}
	return nil
}

// fenced ends a grant whose lock was removed or taken.
func (g *lockGrant) fenced() error {
	g.lose()
	return fmt.Errorf("under the token %d: %w", g.Token, errFenced)
}
