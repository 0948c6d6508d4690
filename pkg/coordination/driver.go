package coordination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	// DefaultAgain is when Reconcile wants to be called again although nothing has changed.
	DefaultAgain = 5 * time.Second
	// busyAgain is when it wants to be called again while something is being done: not all of it changes the store.
	busyAgain = 200 * time.Millisecond
	// othersAgain is when it wants to be called again while another participant acts: a change of the store tells it earlier.
	othersAgain = time.Second
	// atOnce is when it wants to be called again after it has done something.
	atOnce = time.Millisecond
)

// Result is what came of a Reconcile, for a status and for people.
type Result struct {
	// Again is when to call Reconcile again at the latest. Changed tells when to do it earlier.
	Again time.Duration
	// Waits are what has to happen first, of everything that is needed.
	Waits []Waits
	// Doing is what is being done by this participant or another one, if anything. In local mode nobody else sees it.
	Doing *Intent
	// Leads is set when this participant acts for all.
	Leads bool
	// Superseded is set when a newer process of this participant works, and this one does not.
	Superseded bool
	// Events are what happened in this Reconcile, in order.
	Events []Event
	// View is what the participants have said, when this participant looked. It is empty in local mode.
	View *View
}

// Event is something that happened. Its reason is one word, as in an event of Kubernetes.
type Event struct{ Reason, Message string }

// pass is one call of Reconcile.
type pass struct {
	c      *Coordinator
	system System
	view   *View
	mine   []MemberID
	needs  needed // of this participant, at this moment
	result *Result
}

// Reconcile does what is due now, and never waits: it tells the others what this participant needs, carries out what is ordered
// for its members, and acts for all when an action may begin and nobody else does. It is safe to call at any time, also after an
// error or a restart. One call at a time is made for a Coordinator.
func (c *Coordinator) Reconcile(ctx context.Context, settings Settings, system System) (*Result, error) {
	p := &pass{c: c, system: system, view: &View{}, result: &Result{Again: DefaultAgain, View: &View{}}}
	err := p.run(ctx, settings)
	if err == nil {
		c.errorsInARow = 0
		return p.result, nil
	}
	p.result.Again = min(busyAgain<<min(c.errorsInARow, 10), DefaultAgain) // it may last
	c.errorsInARow++
	return p.result, err
}

// Leave withdraws all that this participant has told the others, gives the lock back, and closes the Coordinator. An order that the
// participant has accepted is carried out first: until that is answered Leave returns ErrAccepted. It is called again after
// every error, for example while an older process of the participant is alive.
func (c *Coordinator) Leave(ctx context.Context, system System) error {
	p := &pass{c: c, system: system, view: &View{}, result: &Result{View: &View{}}}
	if alone, is := c.run.(*localRun); is {
		c.run = nil
		if err := alone.grant.Release(ctx); err != nil {
			return err
		}
	}
	c.lookAgain() // nobody does it later
	refused := c.configure(ctx, Settings{})
	if errors.Is(refused, ErrAccepted) {
		view, err := c.view(ctx)
		if err != nil {
			return err
		}
		p.view = view
		return errors.Join(refused, p.finishFirst(ctx, refused))
	}
	if refused != nil {
		return p.standBack(ctx, refused)
	}
	return c.Close(ctx)
}

func (p *pass) run(ctx context.Context, settings Settings) error {
	joined, err := p.join(ctx, settings)
	if err != nil || !joined {
		return err
	}
	needs, err := p.system.Needs(ctx, p.view)
	if err != nil {
		return p.standBack(ctx, fmt.Errorf("looking at what the members need: %w", err))
	}
	p.mine, p.needs = slices.Clone(needs.Members), needs.needed()
	if p.c.currentSettings().Mode != Global {
		return p.local(ctx, needs)
	}
	wants, err := needs.wants()
	if err != nil {
		return p.standBack(ctx, err)
	}
	declared := p.c.declare(ctx, p.view, wants)
	if errors.Is(declared, errMoved) {
		p.again(atOnce)
		return nil
	}
	if idle := p.c.run == nil && p.view.Intent == nil; declared != nil && (idle || !errors.Is(declared, kv.ErrTooLarge)) {
		return declared
	}
	// A store that takes no more entries takes what ends an action nevertheless: that makes room.
	p.mine = slices.DeleteFunc(p.mine, func(id MemberID) bool { return needsNothing(p.view, wants, id) })
	return errors.Join(declared, p.obey(ctx), p.lead(ctx))
}

// needsNothing tells whether what is done was begun for a member whose participant needs it no more, and has not accepted the
// present step. Its entry was still there when it began, for example after an action that was given up when the member was done.
func needsNothing(view *View, wants wantedEntries, id MemberID) bool {
	intent := view.Intent
	if intent == nil {
		return false
	}
	pending, _ := intent.Action.Sets()
	_, asked := intent.Members[id]
	_, needs := wants[pending][id]
	return asked && !needs && !view.Answers[id].isOf(intent)
}

// join makes the settings hold and reads what the participants have said. It tells whether this process may work.
func (p *pass) join(ctx context.Context, settings Settings) (bool, error) {
	const attempts = 2 // a view may show that what this process remembers of its registration is not so any more
	for range attempts {
		refused := p.c.configure(ctx, settings)
		if refused != nil && !errors.Is(refused, errSuperseded) && !errors.Is(refused, errOlder) && !errors.Is(refused, ErrAccepted) {
			if errors.Is(refused, ErrPrefixTaken) || errors.Is(refused, kv.ErrTooLarge) || settings.check() != nil {
				return false, p.standBack(ctx, refused) // it may last
			}
			return false, refused
		}
		if refused == nil && settings.Mode != Global {
			return true, nil
		}
		view, err := p.c.view(ctx)
		if err != nil {
			return false, err
		}
		p.view, p.result.View, p.result.Doing = view, view, view.Intent
		switch {
		case errors.Is(refused, errSuperseded):
			return false, p.standBy(ctx, refused)
		case refused != nil:
			return false, p.finishFirst(ctx, refused)
		}
		if p.c.isKnown() {
			return true, nil
		}
	}
	p.again(busyAgain)
	return false, nil
}

// isKnown tells whether the last view shows this process as the one of its participant that works.
func (c *Coordinator) isKnown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered.written
}
