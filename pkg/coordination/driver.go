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
	// DefaultRequeueAfter is the delay after which Reconcile has to be called again if the store has not changed.
	DefaultRequeueAfter = 5 * time.Second
	// busyAgain is the delay while an action is in progress: not all of its effects change the store.
	busyAgain = 200 * time.Millisecond
	// othersAgain is the delay while another participant acts: a change of the store ends it earlier.
	othersAgain = time.Second
	// atOnce is the delay after a change.
	atOnce = time.Millisecond
)

// Result is the outcome of a Reconcile, for the status and the events of the participant.
type Result struct {
	// RequeueAfter is the delay after which Reconcile has to be called again, unless Changed sends a signal earlier.
	RequeueAfter time.Duration
	// WaitReasons are the reasons why pending actions have not begun or continued.
	WaitReasons []WaitReason
	// Intent is the intent in progress, of this participant or another one, or nil. In local mode it is not in the store.
	Intent *Intent
	// HoldsLock is set when this participant holds the lock: it acts for all, or in local mode for its own members.
	HoldsLock bool
	// Superseded is set when a newer process of this participant is alive: this process does not work.
	Superseded bool
	// Events are the events of this Reconcile, in order.
	Events []Event
	// View is the state of all participants at the beginning of this Reconcile. It is empty in local mode.
	View *View
}

// Event is an event of a Reconcile. Its reason is one word, as in a Kubernetes event.
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

// Reconcile declares the needs of this participant, carries out the orders for its members, and acts for all participants when an
// action may begin and no other participant acts. It never blocks on another participant: the Result names everything that has to
// wait. It is safe to call at any time, also after an error or a restart, but not concurrently for one Coordinator.
func (c *Coordinator) Reconcile(ctx context.Context, settings Settings, system System) (*Result, error) {
	p := &pass{c: c, system: system, view: &View{}, result: &Result{RequeueAfter: DefaultRequeueAfter, View: &View{}}}
	err := p.run(ctx, settings)
	if err == nil {
		c.errorsInARow = 0
		return p.result, nil
	}
	p.result.RequeueAfter = min(busyAgain<<min(c.errorsInARow, 10), DefaultRequeueAfter) // it may last
	c.errorsInARow++
	return p.result, err
}

// Leave removes all entries of this participant, releases the lock, and closes the Coordinator. If the participant has accepted an
// order, Leave carries it out first and returns ErrAccepted. Call it again after every error, for example while an older process of
// the participant is alive.
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
		return p.standBack(ctx, fmt.Errorf("determining the needs of the members: %w", err))
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
	// A store without room for more entries still accepts the writes that end an action, and those make room.
	p.mine = slices.DeleteFunc(p.mine, func(id MemberID) bool { return needsNothing(p.view, wants, id) })
	return errors.Join(declared, p.obey(ctx), p.lead(ctx))
}

// needsNothing reports whether the intent includes a member that no longer needs the action and whose participant has not accepted
// the current step. Its entry still existed when the intent began, for example after an earlier intent was given up when the
// member was already done.
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

// join applies the settings and reads the state of all participants. It reports whether this process may work.
func (p *pass) join(ctx context.Context, settings Settings) (bool, error) {
	const attempts = 2 // a view may show that the registration of this process is outdated
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
		p.view, p.result.View, p.result.Intent = view, view, view.Intent
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

// isKnown reports whether the last view shows this process as the newest one of its participant.
func (c *Coordinator) isKnown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered.written
}
