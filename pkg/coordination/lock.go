package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
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

	mu sync.Mutex
	// intent is what was written last, at a version of its key; nil when only the lock is held.
	intent        *Intent
	intentVersion int64
}

// Lock takes the lock, for something that needs no more. It does not wait: it returns a HeldError if somebody
// has it.
func (c *Coordinator) Lock(ctx context.Context) (*Grant, error) {
	return c.take(ctx, func(*View, int64) ([]Condition, *Intent, error) { return nil, nil, nil })
}

// take takes the lock and writes an intent with it, in one transaction.
func (c *Coordinator) take(ctx context.Context, prepare func(view *View, token int64) ([]Condition, *Intent, error)) (*Grant, error) {
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
	if held := view.Lock; held != nil {
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
		return nil, fmt.Errorf("taking the lock of %s: %w", c.system, err)
	}
	g := &Grant{Token: token, c: c, version: revision, intent: intent, intentVersion: revision}
	g.ctx, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go g.guard(session)
	return g, nil
}

// holds tells whether an entry is this process's lock.
func (c *Coordinator) holds(entry Entry) bool {
	var lock Lock
	c.mu.Lock()
	defer c.mu.Unlock()
	return json.Unmarshal([]byte(entry.Value), &lock) == nil && c.session != nil && lock.Session == c.session.ID()
}

// guard ends the grant when its session or its lock is lost.
func (g *Grant) guard(session Session) {
	changed := g.c.store.Watch(g.ctx, g.c.keys.lock())
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-session.Lost():
			g.lose()
			return
		case <-changed:
			found, err := g.c.store.Read(g.ctx, g.c.keys.lock())
			if err == nil && found.Entries[g.c.keys.lock()].Version != g.version {
				g.lose()
				return
			}
		}
	}
}

func (g *Grant) lose() {
	if g.ctx.Err() == nil {
		g.c.metrics.fenced.Inc()
	}
	g.cancel(ErrFenced)
}

// Context ends when the lock is lost or given back. What is done to the system is done with it.
func (g *Grant) Context() context.Context { return g.ctx }

// Held tells whether the lock has not been seen to be lost.
func (g *Grant) Held() bool { return g.ctx.Err() == nil }

// Release gives the lock back. An intent that is not done stays for the next one to go on with.
func (g *Grant) Release(ctx context.Context) error {
	defer g.cancel(context.Canceled)
	err := g.commit(ctx, Delete(g.c.keys.lock()))
	if errors.Is(err, ErrFenced) {
		return nil // somebody else has it
	}
	return err
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
