package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrDenied is returned to an instance that may not hold the lock.
	ErrDenied = errors.New("this instance is on the deny list")
	// ErrFenced is returned for what is not written because the lock belongs to somebody else by now.
	ErrFenced = errors.New("the lock is lost")
)

// HeldError is returned when another instance holds the lock.
type HeldError struct{ Lock Lock }

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s holds the lock with token %d", e.Lock.Holder, e.Lock.Token)
}

// Grant is a lock that is held. What is written with it is written only while it is.
type Grant struct {
	// Token is larger than that of every grant before. Whoever can compare tokens should be told it.
	Token int64

	c       *Coordinator
	ctx     context.Context
	cancel  context.CancelCauseFunc
	version int64 // of the lock's key
	since   time.Time
	ending  atomic.Bool // it is being given back

	mu sync.Mutex
	// intent is what was written last, at a version of its key; nil when only the lock is held.
	intent        *Intent
	intentVersion int64
}

// Lock takes the lock, for something that needs no more, also in local mode. It does not wait: it returns a HeldError if
// somebody has it.
func (c *Coordinator) Lock(ctx context.Context) (*Grant, error) {
	return c.take(ctx, func(*View, int64) ([]Condition, *Intent, error) { return nil, nil, nil })
}

// take takes the lock and writes an intent with it, in one transaction.
func (c *Coordinator) take(ctx context.Context, prepare func(view *View, token int64) ([]Condition, *Intent, error)) (*Grant, error) {
	c.taking.Lock()
	defer c.taking.Unlock()
	session, err := c.live(ctx)
	if err != nil {
		return nil, err
	}
	view, err := c.View(ctx)
	if err != nil {
		return nil, err
	}
	if _, denied := view.Denied[c.name]; denied {
		return nil, fmt.Errorf("%w of %v", ErrDenied, view.Denied[c.name])
	}
	if held := view.Lock; held != nil && !c.ownerless(held) {
		if _, denied := view.Denied[held.Holder]; !denied {
			return nil, &HeldError{*held}
		}
	}
	token := view.Token + 1
	conditions, intent, err := prepare(view, token)
	if err != nil {
		return nil, err
	}
	lock := Lock{Holder: c.name, Prefix: c.Settings().Prefix, Token: token, Session: session.ID(), Since: c.clock.Now().UTC()}
	t := Transaction{
		If: append(conditions,
			IsAt(c.keys.lock(), view.entries[c.keys.lock()].Version),
			IsAt(c.keys.token(), view.entries[c.keys.token()].Version)),
		Then: []Operation{PutFor(session, c.keys.lock(), encode(lock)), Put(c.keys.token(), strconv.FormatInt(token, 10))},
	}
	if intent != nil {
		t.Then = append(t.Then, Put(c.keys.intent(), encode(intent)))
	}
	revision, err := c.store.Commit(ctx, t)
	if err != nil {
		if !errors.Is(err, ErrConflict) {
			c.doubt(true) // a conflict says nothing of a lock from before
		}
		return nil, fmt.Errorf("taking the lock of %s: %w", c.system, err)
	}
	g := &Grant{Token: token, c: c, since: c.clock.Now(), version: revision, intent: intent, intentVersion: revision}
	g.ctx, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.mu.Lock()
	c.grant, c.doubtful = g, false
	c.mu.Unlock()
	go g.guard(session)
	return g, nil
}

// ownerless tells whether a lock is this process's own and no grant of it is held any more: it was taken or given back by a
// transaction of which nobody knows whether it was done.
func (c *Coordinator) ownerless(lock *Lock) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session != nil && lock.Session == c.session.ID() && (c.grant == nil || !c.grant.Held())
}

// giveBack removes a lock that has no owner.
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
		_, err := c.store.Commit(ctx, Transaction{
			If: []Condition{IsAt(c.keys.lock(), entry.Version)}, Then: []Operation{Delete(c.keys.lock())},
		})
		if err != nil && !errors.Is(err, ErrConflict) {
			return fmt.Errorf("giving the lock of %s back: %w", c.system, err)
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
func (c *Coordinator) holds(entry Entry) bool {
	var lock Lock
	c.mu.Lock()
	defer c.mu.Unlock()
	return json.Unmarshal([]byte(entry.Value), &lock) == nil && c.session != nil && lock.Session == c.session.ID()
}

// lookAgain is how long the guard of a lock waits after it could not read it.
const lookAgain = time.Second

// guard ends the grant when its session or its lock is lost.
func (g *Grant) guard(session Session) {
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
		case found.Entries[g.c.keys.lock()].Version != g.version:
			g.lose()
			return
		}
	}
}

// lose ends a grant whose lock is gone. It is no loss if this process is about to give it back.
func (g *Grant) lose() {
	if g.ctx.Err() == nil && !g.ending.Load() {
		g.c.metrics.fenced.Inc()
	}
	g.cancel(ErrFenced)
}

// end removes the lock together with something else. That the guard sees it gone then is no loss.
func (g *Grant) end(ctx context.Context, operations ...Operation) error {
	g.ending.Store(true)
	return g.commit(ctx, append(operations, Delete(g.c.keys.lock()))...)
}

// Context ends when the lock is lost or given back. What is done to the system is done with it.
func (g *Grant) Context() context.Context { return g.ctx }

// Held tells whether the lock has not been seen to be lost.
func (g *Grant) Held() bool { return g.ctx.Err() == nil }

// Release gives the lock back. An intent that is not done stays for the next one to go on with.
// When that fails, nobody may act under this grant any more nevertheless; Configure and Lock try again.
func (g *Grant) Release(ctx context.Context) error {
	if errors.Is(context.Cause(g.ctx), context.Canceled) {
		return nil // it was given back before
	}
	err := g.end(ctx)
	g.cancel(context.Canceled)
	switch {
	case errors.Is(err, ErrFenced):
		return nil // somebody else has it
	case err != nil:
		g.c.doubt(true)
		return err
	}
	g.c.rest(ctx)
	return nil
}

// commit writes something while the lock is held.
func (g *Grant) commit(ctx context.Context, operations ...Operation) error {
	_, err := g.commitAt(ctx, operations...)
	return err
}

func (g *Grant) commitAt(ctx context.Context, operations ...Operation) (int64, error) {
	if cause := context.Cause(g.ctx); cause != nil {
		return 0, fmt.Errorf("under the token %d: %w", g.Token, cause)
	}
	revision, err := g.c.store.Commit(ctx, Transaction{If: []Condition{IsAt(g.c.keys.lock(), g.version)}, Then: operations})
	switch {
	case errors.Is(err, ErrConflict):
		g.lose()
		return 0, fmt.Errorf("under the token %d: %w", g.Token, ErrFenced)
	case err != nil:
		return 0, fmt.Errorf("writing under the token %d: %w", g.Token, err)
	}
	return revision, nil
}
