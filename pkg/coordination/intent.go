package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

var (
	// errBarrierClosed is returned when an action may not begin.
	errBarrierClosed = errors.New("the action may not begin yet")
	// errNothingToResume is returned when no former holder has left an intent.
	errNothingToResume = errors.New("no intent to continue")
	// errLocal is returned in local mode for operations that act for all participants.
	errLocal = errors.New("this participant is in local mode")
	// ErrAccepted is returned when an order cannot be withdrawn, because a participant has accepted and not answered it: the
	// participant may be carrying it out at this moment.
	ErrAccepted = errors.New("the order was accepted and not yet answered")
)

// begin takes the lock for an action and writes its intent, if the state on which the verdict was decided is unchanged. Otherwise
// it returns ErrConflict: decide again.
func (c *Coordinator) begin(ctx context.Context, verdict *decision, steps []Step) (*lockGrant, error) {
	switch {
	case c.currentSettings().Mode != Global:
		return nil, errLocal
	case !verdict.Open:
		return nil, fmt.Errorf("%w: %s", errBarrierClosed, verdict.Summary())
	}
	return c.take(ctx, func(view *View, token int64) ([]kv.Condition, *Intent, error) {
		intent := &Intent{
			ID: token, Action: verdict.Action, Class: verdict.Class, Members: map[MemberID]int64{}, LeftOut: verdict.LeftOut,
			Steps: steps, Token: token, Holder: c.name, Since: c.clock.Now().UTC(), DecidedAt: verdict.view.Revision,
		}
		intent.OtherNeeds = intent.otherNeeds(verdict.view.needed())
		for id, member := range verdict.Members {
			intent.Members[id] = member.Version
		}
		return c.unchangedSince(verdict), intent, nil
	})
}

// unchangedSince returns the conditions that no participant has changed its entries since the decision, no action has begun, and no
// participant that was left out has returned.
func (c *Coordinator) unchangedSince(verdict *decision) []kv.Condition {
	view := verdict.view
	conditions := []kv.Condition{kv.NotWritten(c.keys.changes(), view.Revision), kv.IsAbsent(c.keys.intent())}
	if len(verdict.LeftOut) > 0 {
		conditions = append(conditions, kv.NotWritten(c.keys.instances(), view.Revision))
	}
	for key, entry := range view.entries {
		if segments := c.keys.split(key); len(segments) == 2 && segments[0] == kindChanges {
			conditions = append(conditions, kv.IsAt(key, entry.Version)) // also not deleted
		}
	}
	return conditions
}

// resume takes the lock to continue the intent of a former holder. It returns errNothingToResume if there is none.
func (c *Coordinator) resume(ctx context.Context) (*lockGrant, error) {
	if c.currentSettings().Mode != Global {
		return nil, errLocal
	}
	return c.take(ctx, func(view *View, token int64) ([]kv.Condition, *Intent, error) {
		if view.Intent == nil {
			return nil, nil, errNothingToResume
		}
		view.Intent.Token, view.Intent.Holder = token, c.name
		return []kv.Condition{kv.IsAt(c.keys.intent(), view.entries[c.keys.intent()].Version)}, view.Intent, nil
	})
}

// Intent returns the intent as it was written last, or nil if only the lock is held.
func (g *lockGrant) Intent() *Intent {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.intent == nil {
		return nil
	}
	intent := *g.intent
	intent.Steps = slices.Clone(intent.Steps)
	return &intent
}

// Advance records that the current step is done. If it is given steps, they replace the remaining ones. It returns ErrConflict if an
// earlier Advance, whose outcome was unknown, had succeeded: the intent is then the published one.
func (g *lockGrant) Advance(ctx context.Context, rest ...Step) error {
	next := g.Intent()
	if next == nil || next.StepIndex >= len(next.Steps) {
		return errors.New("all steps are done")
	}
	next.StepIndex, next.AllAccepted = next.StepIndex+1, false
	if rest != nil {
		next.Steps = append(next.Steps[:next.StepIndex:next.StepIndex], rest...)
	}
	return g.replaceIntent(ctx, next)
}

// StartTogether lets the participants carry out a step that all of them have accepted, if none of them has left since the view was
// read: its answer would be gone.
func (g *lockGrant) StartTogether(ctx context.Context, view *View) error {
	next := g.Intent()
	next.AllAccepted = true
	prefixes := map[string]bool{}
	for _, id := range next.stepMembers() {
		prefixes[view.answerPrefixes[id]] = true
	}
	var conditions []kv.Condition
	for _, prefix := range sortedKeys(prefixes) {
		conditions = append(conditions, g.c.prefixUnchanged(view.snapshot(), prefix))
	}
	return g.replaceIntent(ctx, next, conditions...)
}

func (g *lockGrant) replaceIntent(ctx context.Context, next *Intent, conditions ...kv.Condition) error {
	revision, err := g.commitIntent(ctx, conditions, kv.Put(g.c.keys.intent(), encode(next)))
	if err != nil {
		return err
	}
	g.setIntent(next, revision)
	return nil
}

// commitIntent writes while the lock is held, the intent is the one that this grant knows, and the conditions are met. It returns
// ErrConflict if an earlier write, whose outcome was unknown, has published another intent, and then takes over that intent.
func (g *lockGrant) commitIntent(ctx context.Context, conditions []kv.Condition, operations ...kv.Operation) (int64, error) {
	g.mu.Lock()
	known := kv.IsAt(g.c.keys.intent(), g.intentVersion)
	g.mu.Unlock()
	revision, err := g.commitIf(ctx, append(conditions, known), operations...)
	if !errors.Is(err, kv.ErrConflict) {
		return revision, err
	}
	found, readErr := g.c.store.Read(ctx, g.c.keys.lock(), g.c.keys.intent())
	if readErr != nil {
		return 0, fmt.Errorf("reading the intent after a conflict: %w", readErr)
	}
	entry, published := found.Entries[g.c.keys.intent()], &Intent{}
	if found.Entries[g.c.keys.lock()].Version != g.lockVersion() || entry.Version == 0 {
		return 0, g.fencedError()
	}
	if readErr := json.Unmarshal([]byte(entry.Value), published); readErr != nil {
		return 0, fmt.Errorf("decoding the intent after a conflict: %w", readErr)
	}
	g.setIntent(published, entry.Version)
	return 0, err
}

// refresh takes over the intent of a view if it is newer: the outcome of a write of this grant may have been unknown.
func (g *lockGrant) refresh(view *View) {
	entry := view.entries[g.c.keys.intent()]
	g.mu.Lock()
	defer g.mu.Unlock()
	if view.Intent != nil && view.entries[g.c.keys.lock()].Version == g.version && entry.Version > g.intentVersion {
		intent := *view.Intent
		g.intent, g.intentVersion = &intent, entry.Version
	}
}

func (g *lockGrant) setIntent(intent *Intent, version int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intent, g.intentVersion = intent, version
}

// withdrawConditions returns the conditions under which the current step may be withdrawn from members: no participant has accepted
// it since the view was read. It returns ErrAccepted if one had accepted it before, unless fenced is set: then the system refuses
// what was accepted under an older token.
func (g *lockGrant) withdrawConditions(view *View, fenced bool, ids ...MemberID) ([]kv.Condition, error) {
	intent := g.Intent()
	if step := intent.step(); step == nil || !step.Order {
		return nil, nil
	} else if step.Together && !intent.AllAccepted {
		return nil, nil // no participant carries it out before all have accepted it
	}
	for _, id := range ids {
		if view.Accepted(id) && (!fenced || view.Answers[id].Token >= intent.Token) {
			return nil, fmt.Errorf("withdrawing the order to %s %s: %w", intent.step().Do, id, ErrAccepted)
		}
	}
	return []kv.Condition{kv.NotWritten(g.c.keys.answers(), view.Revision)}, nil
}

// SkipMembers continues without some members of the current step: it records the reason, removes them from the members of the action,
// and replaces all later steps. The members stay pending. It returns ErrAccepted if the order was accepted for one of them, unless
// fencedDatabase is set.
func (g *lockGrant) SkipMembers(ctx context.Context, view *View, reason string, ids []MemberID, fenced bool, rest ...Step) error {
	next := g.Intent()
	if next.step() == nil {
		return errors.New("all steps are done: no step to skip a member of")
	}
	conditions, err := g.withdrawConditions(view, fenced, ids...)
	if err != nil {
		return err
	}
	next.Members, next.LeftOut = maps.Clone(next.Members), maps.Clone(next.LeftOut)
	if next.LeftOut == nil {
		next.LeftOut = map[MemberID]string{}
	}
	for _, id := range ids {
		delete(next.Members, id)
		next.LeftOut[id] = reason
	}
	step := &next.Steps[next.StepIndex]
	if left := step.without(ids...); len(left.Members) == 0 {
		next.StepIndex, next.AllAccepted = next.StepIndex+1, false
		next.Steps = slices.Concat(next.Steps[:next.StepIndex], rest)
	} else {
		*step = left
		next.Steps = slices.Concat(next.Steps[:next.StepIndex+1], rest)
	}
	return g.replaceIntent(ctx, next, conditions...)
}

// maxDoneRecords is the number of done records that are kept for users.
const maxDoneRecords = 10

// maxDoneRecordsSize is their maximum total size in bytes: an action with many members has a large record.
const maxDoneRecordsSize = 64 << 10

// maxRemovedDoneRecords is how many are removed in one transaction, which has a limit.
const maxRemovedDoneRecords = 50

// end records that the action is done, or with a failure that it was given up, and releases the lock. It returns ErrAccepted if a
// participant may be carrying out the current step, unless fenced is set.
func (g *lockGrant) end(ctx context.Context, failure string, fenced bool) error {
	intent := g.Intent()
	if intent == nil {
		return g.Release(ctx)
	}
	view, err := g.c.view(ctx)
	if err == nil {
		err = g.lostError() // the view may have shown that the lock is lost
	}
	if err != nil {
		return err
	}
	var conditions []kv.Condition
	if step := intent.step(); step != nil {
		if conditions, err = g.withdrawConditions(view, fenced, step.Members...); err != nil {
			return err
		}
	}
	done := DoneRecord{Intent: *intent, Failure: failure, Until: g.c.clock.Now().UTC()}
	if failure == "" {
		done.StepIndex = len(done.Steps) // the last step was not recorded
	}
	g.releasing.Store(true)
	if _, err := g.commitIntent(ctx, conditions, append(view.endOperations(done), kv.Delete(g.c.keys.lock()))...); err != nil {
		g.releasing.Store(false)
		return err
	}
	g.c.metrics.observeEnd(&done, g.c.clock.Now().Sub(g.since))
	g.cancel(context.Canceled)
	return nil
}

// endOperations returns the operations that write the done record, and remove the intent and obsolete records.
func (v *View) endOperations(done DoneRecord) []kv.Operation {
	record := kv.Put(v.keys.done(tokenKey(done.Token)), encode(done))
	operations := []kv.Operation{record, kv.Delete(v.keys.intent())}
	for _, old := range obsoleteDoneRecords(v, maxDoneRecords-1, maxDoneRecordsSize-len(record.Value)) {
		if old.Token != done.Token {
			operations = append(operations, kv.Delete(v.keys.done(tokenKey(old.Token))))
		}
	}
	return operations
}

// obsoleteDoneRecords returns the done records that can be removed: all but the newest ones, up to a number and a total size, unless
// an entry still exists that the record marks as done.
func obsoleteDoneRecords(view *View, keep, keepSize int) []DoneRecord {
	var old []DoneRecord
	for i, done := range view.DoneRecords {
		pending, _ := done.Action.Sets()
		needed := false
		for id, version := range done.Members {
			member, exists := view.Sets[pending][id]
			needed = needed || exists && done.Failure == "" && member.Version <= version
		}
		keepSize -= len(view.entries[view.keys.done(tokenKey(done.Token))].Value)
		if (i >= keep || keepSize < 0) && !needed {
			old = append(old, done)
		}
	}
	return old[:min(len(old), maxRemovedDoneRecords)]
}
