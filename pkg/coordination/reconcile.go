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
	// busyInterval is the delay while an action is in progress: not every progress changes the store.
	busyInterval = 200 * time.Millisecond
	// waitInterval is the delay while another participant holds the lock: a change of the store ends it earlier.
	waitInterval = time.Second
	// immediately is the delay after a write of this process.
	immediately = time.Millisecond
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

// pass is the state of one call of Reconcile.
type pass struct {
	c          *Coordinator
	system     System
	view       *View
	ownMembers []MemberID
	needs      needed // of this participant, now
	result     *Result
}

// Reconcile declares the needs of this participant, carries out the orders for its members, and acts for all participants when an
// action may begin and no other participant acts. It never blocks on another participant: the Result names everything that has to
// wait. It is safe to call at any time, also after an error or a restart, but not concurrently for one Coordinator.
func (c *Coordinator) Reconcile(ctx context.Context, settings Settings, system System) (*Result, error) {
	p := &pass{c: c, system: system, view: &View{}, result: &Result{RequeueAfter: DefaultRequeueAfter, View: &View{}}}
	err := p.reconcile(ctx, settings)
	if err == nil {
		c.consecutiveErrors = 0
		return p.result, nil
	}
	p.result.RequeueAfter = min(busyInterval<<min(c.consecutiveErrors, 10), DefaultRequeueAfter) // the error may persist
	c.consecutiveErrors++
	return p.result, err
}

// Leave removes all entries of this participant, releases the lock, and closes the Coordinator. If the participant has accepted an
// order, Leave carries it out first and returns ErrAccepted. Call it again after every error, for example while an older process of
// the participant is alive.
func (c *Coordinator) Leave(ctx context.Context, system System) error {
	p := &pass{c: c, system: system, view: &View{}, result: &Result{View: &View{}}}
	if local, ok := c.currentRun.(*localRun); ok {
		c.currentRun = nil
		if err := local.grant.Release(ctx); err != nil {
			return err
		}
	}
	c.recheckOwnEntries() // no later call does
	refused := c.configure(ctx, Settings{})
	if errors.Is(refused, ErrAccepted) {
		view, err := c.view(ctx)
		if err != nil {
			return err
		}
		p.view = view
		return errors.Join(refused, p.finishAccepted(ctx, refused))
	}
	if refused != nil {
		return p.stepDown(ctx, refused)
	}
	return c.Close(ctx)
}

func (p *pass) reconcile(ctx context.Context, settings Settings) error {
	joined, err := p.join(ctx, settings)
	if err != nil || !joined {
		return err
	}
	needs, err := p.system.Needs(ctx, p.view)
	if err != nil {
		return p.stepDown(ctx, fmt.Errorf("determining the needs of the members: %w", err))
	}
	p.ownMembers, p.needs = slices.Clone(needs.Members), needs.needed()
	if p.c.currentSettings().Mode != Global {
		return p.local(ctx, needs)
	}
	wanted, err := needs.entries()
	if err != nil {
		return p.stepDown(ctx, err)
	}
	declareErr := p.c.declare(ctx, p.view, wanted)
	if errors.Is(declareErr, errRegistrationChanged) {
		p.requeueAfter(immediately)
		return nil
	}
	if idle := p.c.currentRun == nil && p.view.Intent == nil; declareErr != nil && (idle || !errors.Is(declareErr, kv.ErrTooLarge)) {
		return declareErr
	}
	// A store without room for more entries still accepts the writes that end an action, and those make room.
	p.ownMembers = slices.DeleteFunc(p.ownMembers, func(id MemberID) bool { return noLongerNeeded(p.view, wanted, id) })
	return errors.Join(declareErr, p.carryOutOrder(ctx), p.runAsHolder(ctx))
}

// noLongerNeeded reports whether the intent includes a member that no longer needs the action and whose participant has not accepted
// the current step. Its entry still existed when the intent began, for example after an earlier intent was given up when the
// member was already done.
func noLongerNeeded(view *View, wanted wantedEntries, id MemberID) bool {
	intent := view.Intent
	if intent == nil {
		return false
	}
	pending, _ := intent.Action.Sets()
	_, included := intent.Members[id]
	_, needs := wanted[pending][id]
	return included && !needs && !view.Answers[id].isFor(intent)
}

// join applies the settings and reads the state of all participants. It reports whether this process may work.
func (p *pass) join(ctx context.Context, settings Settings) (bool, error) {
	const attempts = 2 // a view may show that the registration of this process is outdated
	for range attempts {
		refused := p.c.configure(ctx, settings)
		if refused != nil && !errors.Is(refused, errSuperseded) && !errors.Is(refused, errOtherProcess) && !errors.Is(refused, ErrAccepted) {
			if errors.Is(refused, ErrPrefixTaken) || errors.Is(refused, kv.ErrTooLarge) || settings.check() != nil {
				return false, p.stepDown(ctx, refused) // the error may persist
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
			return false, p.finishAccepted(ctx, refused)
		}
		if p.c.isCurrentProcess() {
			return true, nil
		}
	}
	p.requeueAfter(busyInterval)
	return false, nil
}

// isCurrentProcess reports whether the last view shows this process as the newest one of its participant.
func (c *Coordinator) isCurrentProcess() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered.written
}

// standBy only finishes the orders that this process has accepted, while a newer process of the participant is alive.
func (p *pass) standBy(ctx context.Context, cause error) error {
	p.result.Superseded = true
	p.addWaitReason(p.c.name, cause.Error())
	p.requeueAfter(busyInterval)
	if grant := p.c.currentGrant(); grant != nil {
		p.c.currentRun = nil
		return grant.Release(ctx)
	}
	for _, id := range sortedKeys(p.view.Answers) {
		if p.view.Accepted(id) && p.view.Answers[id].Session == p.c.sessionID() {
			p.ownMembers = append(p.ownMembers, id)
		}
	}
	return p.carryOutOrder(ctx)
}

// finishAccepted carries out the order that this participant has accepted, before the participant may leave: without its answer,
// the order would count as not accepted.
func (p *pass) finishAccepted(ctx context.Context, cause error) error {
	p.addWaitReason(p.c.name, cause.Error())
	p.requeueAfter(busyInterval)
	p.ownMembers = p.view.acceptedBy(p.c.currentSettings().Prefix)
	if grant := p.c.currentGrant(); grant != nil { // another participant continues the plan
		p.c.currentRun = nil
		return errors.Join(grant.Release(ctx), p.carryOutOrder(ctx))
	}
	return p.carryOutOrder(ctx)
}

// stepDown releases the lock, so that another participant continues the action: this one cannot observe its members.
func (p *pass) stepDown(ctx context.Context, cause error) error {
	if grant := p.c.currentGrant(); grant != nil {
		p.addEvent("SteppedDown", "Released the lock, because this participant cannot continue: "+cause.Error())
		p.c.currentRun = nil
		return errors.Join(cause, grant.Release(ctx))
	}
	return cause
}
