package coordination

import (
	"context"
	"fmt"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// The actions and sets of the tests: those of a database whose members are excluded before they are removed.
const (
	Removal   Action = "Removal"
	Exclusion Action = "Exclusion"
	Inclusion Action = "Inclusion"
	Restart   Action = "Restart"

	PendingForRemoval   = pendingFor + Set(Removal)
	PendingForExclusion = pendingFor + Set(Exclusion)
	PendingForInclusion = pendingFor + Set(Inclusion)
	PendingForRestart   = pendingFor + Set(Restart)
	ReadyForRemoval     = readyFor + Set(Removal)
	ReadyForExclusion   = readyFor + Set(Exclusion)
	ReadyForInclusion   = readyFor + Set(Inclusion)
	ReadyForRestart     = readyFor + Set(Restart)
)

// Names for the tests of single parts, which only Reconcile uses otherwise.
type (
	Grant         = lockGrant
	Verdict       = decision
	Order         = memberOrder
	WantedEntries = wantedEntries
	Update        = setUpdate
	Updates       = setUpdates
	HeldError     = heldError
)

var (
	ErrBarrierClosed   = errBarrierClosed
	ErrNothingToResume = errNothingToResume
	ErrLocal           = errLocal
	ErrDenied          = errDenied
	ErrFenced          = errFenced
	ErrSuperseded      = errSuperseded
	ErrOtherProcess    = errOtherProcess
)

// Add makes a member an entry of a set, or gives its entry other addresses.
func Add(addresses ...string) Update { return addEntry(addresses...) }

// AddForced is Add for a need that was done and exists again.
func AddForced(addresses ...string) Update { return Update{force: true, addresses: addresses} }

// Remove removes a member from a set.
func Remove() Update { return Update{remove: true} }

func (c *Coordinator) Configure(ctx context.Context, settings Settings) error {
	return c.configure(ctx, settings)
}

func (c *Coordinator) Settings() Settings { return c.currentSettings() }

func (c *Coordinator) View(ctx context.Context) (*View, error) { return c.view(ctx) }

func (c *Coordinator) Declare(ctx context.Context, view *View, wants WantedEntries) error {
	return c.declare(ctx, view, wants)
}

func (c *Coordinator) Decide(view *View, action Action, class string) *Verdict {
	return c.decide(view, action, class)
}

// Check reads everything at one revision and decides whether an action may begin for a class.
func (c *Coordinator) Check(ctx context.Context, action Action, class string) (*Verdict, error) {
	view, err := c.view(ctx)
	if err != nil {
		return nil, err
	}
	return c.decide(view, action, class), nil
}

func (c *Coordinator) Begin(ctx context.Context, verdict *Verdict, steps []Step) (*Grant, error) {
	return c.begin(ctx, verdict, steps)
}

func (c *Coordinator) Resume(ctx context.Context) (*Grant, error) { return c.resume(ctx) }

// Lock takes the lock without an intent.
func (c *Coordinator) Lock(ctx context.Context) (*Grant, error) {
	return c.take(ctx, func(*View, int64) ([]kv.Condition, *Intent, error) { return nil, nil, nil })
}

func (c *Coordinator) Order(view *View, mine ...MemberID) *Order { return c.order(view, mine...) }

func (c *Coordinator) Accept(ctx context.Context, order *Order) error { return c.accept(ctx, order) }

// Answer answers that an order was carried out, or with a failure, that it cannot be.
func (c *Coordinator) Answer(ctx context.Context, order *Order, failure string) error {
	return c.answer(ctx, order, Answer{Done: true, Failure: failure})
}

// Write writes an entry under the lock.
func (g *Grant) Write(ctx context.Context, name, value string) error {
	return g.commit(ctx, kv.Put(g.c.keys.join(name), value))
}

// SetMembers returns the entries of a set at one revision: of all participants, or of those with one of the prefixes.
func (c *Coordinator) SetMembers(ctx context.Context, set Set, prefixes ...string) (Members, error) {
	if c.currentSettings().Mode != Global {
		return Members{}, nil
	}
	paths := []string{c.keys.ofSet(set)}
	if len(prefixes) > 0 {
		paths = nil
		for _, prefix := range prefixes {
			paths = append(paths, c.keys.ofSet(set, prefix))
		}
	}
	found, err := c.store.Read(ctx, paths...)
	if err != nil {
		return nil, err
	}
	return c.keys.members(found, set), nil
}

// Update changes this participant's entries of several sets atomically.
func (c *Coordinator) Update(ctx context.Context, changes map[Set]Updates) error {
	mine := c.currentSettings()
	if mine.Mode != Global {
		return nil
	}
	wanted, err := c.keys.changesFor(mine.Prefix, changes)
	if err != nil || len(wanted) == 0 {
		return err
	}
	if err := c.retry(ctx, func() error { return c.update(ctx, mine.Prefix, wanted) }); err != nil {
		return fmt.Errorf("updating the entries of %s in %s: %w", mine.Prefix, c.system, err)
	}
	return nil
}

func (c *Coordinator) GetPendingForRemoval(ctx context.Context, prefixes ...string) (Members, error) {
	return c.SetMembers(ctx, PendingForRemoval, prefixes...)
}

func (c *Coordinator) UpdatePendingForRemoval(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{PendingForRemoval: updates})
}

func (c *Coordinator) GetPendingForExclusion(ctx context.Context, prefixes ...string) (Members, error) {
	return c.SetMembers(ctx, PendingForExclusion, prefixes...)
}

func (c *Coordinator) UpdatePendingForExclusion(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{PendingForExclusion: updates})
}

func (c *Coordinator) GetPendingForInclusion(ctx context.Context, prefixes ...string) (Members, error) {
	return c.SetMembers(ctx, PendingForInclusion, prefixes...)
}

func (c *Coordinator) UpdatePendingForInclusion(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{PendingForInclusion: updates})
}

func (c *Coordinator) GetPendingForRestart(ctx context.Context, prefixes ...string) (Members, error) {
	return c.SetMembers(ctx, PendingForRestart, prefixes...)
}

func (c *Coordinator) UpdatePendingForRestart(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{PendingForRestart: updates})
}

func (c *Coordinator) GetReadyForExclusion(ctx context.Context, prefixes ...string) (Members, error) {
	return c.SetMembers(ctx, ReadyForExclusion, prefixes...)
}

func (c *Coordinator) UpdateReadyForExclusion(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{ReadyForExclusion: updates})
}

func (c *Coordinator) GetReadyForInclusion(ctx context.Context, prefixes ...string) (Members, error) {
	return c.SetMembers(ctx, ReadyForInclusion, prefixes...)
}

func (c *Coordinator) UpdateReadyForInclusion(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{ReadyForInclusion: updates})
}

func (c *Coordinator) GetReadyForRestart(ctx context.Context, prefixes ...string) (Members, error) {
	return c.SetMembers(ctx, ReadyForRestart, prefixes...)
}

func (c *Coordinator) UpdateReadyForRestart(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{ReadyForRestart: updates})
}

// Step returns the current step, or nil when all are done.
func (g *lockGrant) Step() *Step { return g.Intent().step() }

// Done ends the action, or with a failure, gives it up.
func (g *lockGrant) Done(ctx context.Context, failure string) error {
	return g.end(ctx, failure, false)
}

// CompletedAnswers returns the completed answers to the current step, by member.
func (g *lockGrant) CompletedAnswers(view *View) map[MemberID]Answer {
	answered := map[MemberID]Answer{}
	intent := g.Intent()
	if step := intent.step(); step != nil {
		for _, id := range step.Members {
			if answer := view.Answers[id]; answer.completes(intent) {
				answered[id] = answer
			}
		}
	}
	return answered
}
