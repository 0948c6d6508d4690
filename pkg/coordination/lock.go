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

// lockGrant is a lock that this process holds. Its writes succeed only while the lock is held.
type lockGrant struct {
	// Token is larger than that of every grant before. Pass it to every component that can compare tokens.
	Token int64

	c         *Coordinator
	ctx       context.Context
	cancel    context.CancelCauseFunc
	lock      Lock
	since     time.Time
	releasing atomic.Bool

	mu sync.Mutex
	// version is the version of the lock's entry.
	version int64
	// intent is the intent as written last, with the version of its entry. It is nil when only the lock is held.
	intent        *Intent
	intentVersion int64
}

// takeLocalLock takes the lock for an action in local mode, but not while a participant may be carrying out an intent. It does not wait:
// it returns a heldError if another participant holds the lock.
func (c *Coordinator) takeLocalLock(ctx context.Context) (*lockGrant, error) {
	return c.take(ctx, func(view *View, _ int64) ([]kv.Condition, *Intent, error) {
		if slices.ContainsFunc(view.Participants, func(p Participant) bool { return p.Name == c.name }) {
			c.recheckOwnEntries() // an older process of this participant has returned
			return nil, nil, kv.ErrConflict
		}
		if view.Intent != nil && (len(view.Instances) > 0 || slices.ContainsFunc(view.Intent.stepMembers(), view.Accepted)) {
			return nil, nil, &heldError{Lock{Holder: view.Intent.Holder, Token: view.Intent.Token}}
		}
		return []kv.Condition{
			kv.IsAt(c.keys.intent(), view.entries[c.keys.intent()].Version), kv.NotWritten(c.keys.answers(), view.Revision),
		}, nil, nil
	})
}

// take takes the lock and writes an intent with it, in one transaction.
func (c *Coordinator) take(ctx context.Context, prepare func(view *View, token int64) ([]kv.Condition, *Intent, error)) (*lockGrant, error) {
	c.takeMu.Lock()
	defer c.takeMu.Unlock()
	session, err := c.openSession(ctx)
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
	if held := view.Lock; held != nil && !c.isUngranted(held) {
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
			c.setLockUncertain(true) // a conflict does not change an earlier lock
		}
		return nil, fmt.Errorf("taking the lock of %s: %w", c.system, err)
	}
	g := &lockGrant{Token: token, c: c, lock: lock, since: c.clock.Now(), version: revision, intent: intent, intentVersion: revision}
	g.ctx, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.mu.Lock()
	c.grant, c.lockUncertain = g, false
	c.mu.Unlock()
	go g.guard(session)
	return g, nil
}

// isUngranted reports whether a lock is this process's own although the process has no grant: the outcome of the transaction that
// took or released the lock was unknown.
func (c *Coordinator) isUngranted(lock *Lock) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session != nil && lock.Session == c.session.ID() && (c.grant == nil || !c.grant.Held())
}

// releaseUncertainLock removes a lock of this process without a grant.
func (c *Coordinator) releaseUncertainLock(ctx context.Context) error {
	c.takeMu.Lock()
	defer c.takeMu.Unlock()
	if !c.isLockUncertain() {
		return nil
	}
	found, err := c.store.Read(ctx, c.keys.lock())
	if err != nil {
		return err
	}
	entry, lock := found.Entries[c.keys.lock()], Lock{}
	if json.Unmarshal([]byte(entry.Value), &lock) == nil && c.isUngranted(&lock) {
		_, err := c.store.Commit(ctx, kv.Transaction{
			If: []kv.Condition{kv.IsAt(c.keys.lock(), entry.Version)}, Then: []kv.Operation{kv.Delete(c.keys.lock())},
		})
		if err != nil && !errors.Is(err, kv.ErrConflict) {
			return fmt.Errorf("releasing the lock of %s: %w", c.system, err)
		}
	}
	c.setLockUncertain(false)
	return nil
}

func (c *Coordinator) isLockUncertain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lockUncertain
}

// setLockUncertain records whether the store may have a lock of this process without a grant.
func (c *Coordinator) setLockUncertain(uncertain bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lockUncertain = uncertain
}

// isOwnLock reports whether an entry is the lock of this process.
func (c *Coordinator) isOwnLock(entry kv.Entry) bool {
	var lock Lock
	c.mu.Lock()
	defer c.mu.Unlock()
	return json.Unmarshal([]byte(entry.Value), &lock) == nil && c.session != nil && lock.Session == c.session.ID()
}

// guardRetryAfter is the delay after the guard failed to read the lock.
const guardRetryAfter = time.Second

// guard ends the grant when the session or the lock is lost.
func (g *lockGrant) guard(session kv.Session) {
	changed := g.c.store.Watch(g.ctx, g.c.keys.lock())
	var retry <-chan time.Time
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-session.Lost():
			g.markLost()
			return
		case <-changed:
		case <-retry:
		}
		retry = nil
		found, err := g.c.store.Read(g.ctx, g.c.keys.lock())
		switch {
		case err != nil: // the watch may send no other signal
			retry = time.After(guardRetryAfter)
		case g.isLost(found.Entries[g.c.keys.lock()].Version):
			g.markLost()
			return
		}
	}
}

// lockVersion returns the version of the lock's entry.
func (g *lockGrant) lockVersion() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.version
}

// isLost reports whether the lock is lost, given the version of its entry that was read. An older version was read before this grant
// raised its token.
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
	// A view from before the lock was taken shows an older lock.
	if g != nil && g.Held() && view.Revision >= g.lockVersion() && g.isLost(view.entries[c.keys.lock()].Version) {
		g.markLost()
	}
}

// RaiseToken gives this grant a token that is larger than all before and than the given one. The current step counts as ordered under
// the new token.
func (g *lockGrant) RaiseToken(ctx context.Context, above int64) error {
	view, err := g.c.view(ctx)
	if err != nil {
		return err
	}
	if err := g.lostError(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock() // the guard must not read a version that this grant does not know yet
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
	case !errors.Is(err, kv.ErrConflict): // the version of the lock is unknown
		g.c.setLockUncertain(true)
		g.markLost()
	}
	return err
}

// markLost ends a grant whose lock is gone. The lock does not count as lost if this process is releasing it.
func (g *lockGrant) markLost() {
	if g.ctx.Err() == nil && !g.releasing.Load() {
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
		return nil // released before
	}
	g.releasing.Store(true) // the guard must not count it as lost
	err := g.commit(ctx, kv.Delete(g.c.keys.lock()))
	g.cancel(context.Canceled)
	switch {
	case errors.Is(err, errFenced):
		return nil // another process holds it
	case err != nil:
		g.c.setLockUncertain(true)
		return err
	}
	g.c.closeIdleSession(ctx)
	return nil
}

// commit writes while the lock is held.
func (g *lockGrant) commit(ctx context.Context, operations ...kv.Operation) error {
	_, err := g.commitIf(ctx, nil, operations...)
	if errors.Is(err, kv.ErrConflict) {
		return g.fencedError()
	}
	return err
}

// commitIf writes while the lock is held and the conditions are met. Otherwise it returns ErrConflict.
func (g *lockGrant) commitIf(ctx context.Context, conditions []kv.Condition, operations ...kv.Operation) (int64, error) {
	return g.commitAt(ctx, g.lockVersion(), conditions, operations...)
}

func (g *lockGrant) commitAt(ctx context.Context, version int64, conditions []kv.Condition, operations ...kv.Operation) (int64, error) {
	if err := g.lostError(); err != nil {
		return 0, err
	}
	revision, err := g.c.store.Commit(ctx, kv.Transaction{
		If: append(conditions, kv.IsAt(g.c.keys.lock(), version)), Then: operations,
	})
	if err != nil {
		return 0, fmt.Errorf("writing with token %d: %w", g.Token, err)
	}
	return revision, nil
}

// lostError returns an error if the lock was lost, as far as this process knows.
func (g *lockGrant) lostError() error {
	if cause := context.Cause(g.ctx); cause != nil {
		return fmt.Errorf("token %d: %w", g.Token, cause)
	}
	return nil
}

// fencedError ends a grant whose lock was removed or taken, and returns errFenced.
func (g *lockGrant) fencedError() error {
	g.markLost()
	return fmt.Errorf("token %d: %w", g.Token, errFenced)
}
