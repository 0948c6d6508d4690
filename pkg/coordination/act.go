package coordination

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

var (
	// ErrClosed is returned for an action that may not begin.
	ErrClosed = errors.New("the action may not begin yet")
	// ErrNothingLeft is returned when nobody has left anything behind.
	ErrNothingLeft = errors.New("nothing is left to go on with")
	// ErrLocal is returned to an instance that takes no part, for what it could only do for all.
	ErrLocal = errors.New("this instance is in local mode")
)

// Begin takes the lock for an action that may begin, and writes down what will be done, if nothing that the
// verdict was made of has changed since. It returns ErrConflict when something has: ask again.
func (c *Coordinator) Begin(ctx context.Context, verdict *Verdict, steps []Step) (*Grant, error) {
	switch {
	case c.Settings().Mode != Global:
		return nil, ErrLocal
	case !verdict.Open:
		return nil, fmt.Errorf("%w: %s", ErrClosed, verdict.Summary())
	case verdict.view == nil:
		return nil, errors.New("the verdict is none of Judge or Check")
	}
	return c.take(ctx, func(view *View, token int64) ([]Condition, *Intent, error) {
		intent := &Intent{
			ID: token, Action: verdict.Action, Class: verdict.Class, Members: map[MemberID]int64{}, LeftOut: verdict.LeftOut,
			Steps: steps, Token: token, By: c.name, Since: c.clock.Now().UTC(),
		}
		for id, member := range verdict.Members {
			intent.Members[id] = member.Version
		}
		return c.stillSo(verdict), intent, nil
	})
}

// stillSo is met while no instance has changed its entries, none has come or gone in this way, nobody acts, and none
// that was left out has come back.
func (c *Coordinator) stillSo(verdict *Verdict) []Condition {
	view := verdict.view
	conditions := []Condition{NotWritten(c.keys.changes(), view.Revision), IsAbsent(c.keys.intent())}
	if len(verdict.LeftOut) > 0 {
		conditions = append(conditions, NotWritten(c.keys.instances(), view.Revision))
	}
	for key, entry := range view.entries {
		if at := c.keys.split(key); len(at) == 2 && at[0] == "changes" {
			conditions = append(conditions, IsAt(key, entry.Version)) // also not deleted
		}
	}
	return conditions
}

// Resume takes the lock to go on with what an instance has left behind that lost it. It returns ErrNothingLeft if
// nothing was.
func (c *Coordinator) Resume(ctx context.Context) (*Grant, error) {
	if c.Settings().Mode != Global {
		return nil, ErrLocal
	}
	return c.take(ctx, func(view *View, token int64) ([]Condition, *Intent, error) {
		if view.Intent == nil {
			return nil, nil, ErrNothingLeft
		}
		view.Intent.Token, view.Intent.By = token, c.name
		return []Condition{IsAt(c.keys.intent(), view.entries[c.keys.intent()].Version)}, view.Intent, nil
	})
}

// Intent is what is being done, as it was written last; nil if only the lock is held.
func (g *Grant) Intent() *Intent {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.intent == nil {
		return nil
	}
	intent := *g.intent
	intent.Steps = slices.Clone(intent.Steps)
	return &intent
}

// Step is the one that is to be done now, nil when all are done.
func (g *Grant) Step() *Step { return g.Intent().step() }

// Advance writes down that the present step is done. With more steps these take the place of those that are still
// to come: for a plan that turns out to be wrong.
func (g *Grant) Advance(ctx context.Context, rest ...Step) error {
	next := g.Intent()
	if next == nil || next.At >= len(next.Steps) {
		return errors.New("there is no step to be done")
	}
	next.At++
	if rest != nil {
		next.Steps = append(next.Steps[:next.At:next.At], rest...)
	}
	revision, err := g.commitAt(ctx, Put(g.c.keys.intent(), encode(next)))
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intent, g.intentVersion = next, revision
	return nil
}

// keptDone are how many records of what was done are kept for people to look at.
const keptDone = 10

// removedDone are how many are removed at once: a transaction has its limits.
const removedDone = 50

// Done writes down that all is done, and gives the lock back. With a reason it is given up instead, and what asked for it
// can ask again.
func (g *Grant) Done(ctx context.Context, failure string) error {
	intent := g.Intent()
	if intent == nil {
		return g.Release(ctx)
	}
	view, err := g.c.View(ctx)
	if err != nil {
		return err
	}
	done := Done{Intent: *intent, Failure: failure, Until: g.c.clock.Now().UTC()}
	operations := []Operation{Put(g.c.keys.done(tokenKey(g.Token)), encode(done)), Delete(g.c.keys.intent())}
	for _, old := range outlived(view, keptDone-1) {
		operations = append(operations, Delete(g.c.keys.done(tokenKey(old.Token))))
	}
	if err := g.end(ctx, operations...); err != nil {
		return err
	}
	g.c.metrics.acted(&done, g.c.clock.Now().Sub(g.since))
	g.cancel(context.Canceled)
	return nil
}

// outlived are the records that nothing depends on, but for the newest ones: no entry that they are about is
// still there, or they were given up.
func outlived(view *View, keep int) []Done {
	var old []Done
	for i, done := range view.Done {
		pending, _ := done.Action.Sets()
		needed := false
		for id, version := range done.Members {
			member, exists := view.Sets[pending][id]
			needed = needed || exists && done.Failure == "" && member.Version <= version
		}
		if i >= keep && !needed {
			old = append(old, done)
		}
	}
	return old[:min(len(old), removedDone)]
}

// Order is what the holder of the lock wants an instance to do with one of its members.
type Order struct {
	Step
	// Intent and At name the step, whoever goes on with it: who has carried it out need not do it again under
	// another token.
	Intent int64
	At     int
	Token  int64

	version int64
}

// Order returns what this instance is to do now, if anything. It is asked for one of the instance's own members.
func (c *Coordinator) Order(view *View, mine ...MemberID) *Order {
	step := view.Intent.step()
	if step == nil || !step.Order || !slices.Contains(mine, step.Member) {
		return nil
	}
	if answer, given := view.Answers[step.Member]; given && answer.answers(view.Intent) {
		return nil
	}
	return &Order{
		Step: *step, Intent: view.Intent.ID, At: view.Intent.At, Token: view.Intent.Token,
		version: view.entries[c.keys.intent()].Version,
	}
}

// Answer says that an order was carried out, or with a reason, that it cannot be. It returns ErrConflict if the
// order was changed or withdrawn meanwhile.
func (c *Coordinator) Answer(ctx context.Context, order *Order, failure string) error {
	mine := c.Settings()
	if mine.Mode != Global {
		return fmt.Errorf("answering the order to %s %s: %w", order.Do, order.Member, ErrLocal)
	}
	answer := Answer{Intent: order.Intent, Step: order.At, Token: order.Token, Failure: failure}
	_, err := c.store.Commit(ctx, Transaction{
		If:   []Condition{IsAt(c.keys.intent(), order.version)},
		Then: []Operation{Put(c.keys.answers(mine.Prefix, string(order.Member)), encode(answer)), c.changed(mine.Prefix)},
	})
	if err != nil {
		return fmt.Errorf("answering the order to %s %s: %w", order.Do, order.Member, err)
	}
	return nil
}

// Answered returns the answer to the present step, nil if there is none yet.
func (g *Grant) Answered(view *View) *Answer {
	step := g.Step()
	if step == nil {
		return nil
	}
	if answer, given := view.Answers[step.Member]; given && answer.answers(g.Intent()) {
		return &answer
	}
	return nil
}

// Wanted tells whether a member's instance still wants what is being done: it may have withdrawn its entry, or
// have left the coordination.
func (g *Grant) Wanted(view *View, id MemberID) bool {
	intent := g.Intent()
	pending, _ := intent.Action.Sets()
	_, wanted := view.Sets[pending][id]
	return wanted
}

// Wants are the entries that an instance should have: the addresses of members, by set.
type Wants map[Set]map[MemberID][]string

// Want adds a member to a set.
func (w Wants) Want(set Set, id MemberID, addresses ...string) {
	if w[set] == nil {
		w[set] = map[MemberID][]string{}
	}
	w[set][id] = addresses
}

// Declare makes this instance's entries just those that it wants, and removes what it has answered to orders that are
// over. The view is one from before the instance looked at its members: what was done by then and is wanted
// nevertheless is wanted again.
func (c *Coordinator) Declare(ctx context.Context, view *View, wants Wants) error {
	mine := c.Settings()
	if mine.Mode != Global {
		return nil
	}
	changes, err := c.keys.changesOf(mine.Prefix, wants.updates())
	if err != nil {
		return err
	}
	for i, change := range changes {
		at := c.keys.split(change.Key)
		if entry, exists := view.entries[change.Key]; exists && view.actedAt(Set(at[0]), MemberID(at[2]), entry.Version) {
			changes[i].seen = entry.Version // it was done, and is wanted again
		}
	}
	for key, entry := range view.entries {
		if at := c.keys.split(key); len(at) == 3 && at[1] == mine.Prefix && c.outdated(view, at, wants) {
			changes = append(changes, change{Operation: Delete(key), seen: entry.Version})
		}
	}
	if err := c.retry(ctx, func() error { return c.update(ctx, mine.Prefix, changes) }); err != nil {
		return fmt.Errorf("declaring the entries of %s in %s: %w", mine.Prefix, c.system, err)
	}
	return nil
}

// outdated tells whether an entry of this instance, given by the segments of its key, is not wanted any more.
func (c *Coordinator) outdated(view *View, at []string, wants Wants) bool {
	set, id := Set(at[0]), MemberID(at[2])
	if at[0] == "answers" {
		return view.Intent == nil || view.Answers[id].Intent != view.Intent.ID
	}
	_, wanted := wants[set][id]
	return set.known() && !wanted
}

// updates add all of it.
func (w Wants) updates() map[Set]Updates {
	all := map[Set]Updates{}
	for set, members := range w {
		all[set] = Updates{}
		for id, addresses := range members {
			all[set][id] = Add(addresses...)
		}
	}
	return all
}
