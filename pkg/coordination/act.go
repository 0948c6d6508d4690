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
	// errClosed is returned when an action may not begin.
	errClosed = errors.New("the action may not begin yet")
	// errNothingLeft is returned when there is no intent of a former holder.
	errNothingLeft = errors.New("no intent to continue")
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
		return nil, fmt.Errorf("%w: %s", errClosed, verdict.Summary())
	}
	return c.take(ctx, func(view *View, token int64) ([]kv.Condition, *Intent, error) {
		intent := &Intent{
			ID: token, Action: verdict.Action, Class: verdict.Class, Members: map[MemberID]int64{}, LeftOut: verdict.LeftOut,
			Steps: steps, Token: token, Holder: c.name, Since: c.clock.Now().UTC(), DecidedAt: verdict.view.Revision,
		}
		intent.OtherNeeds = intent.beside(verdict.view.needed())
		for id, member := range verdict.Members {
			intent.Members[id] = member.Version
		}
		return c.stillSo(verdict), intent, nil
	})
}

// stillSo is met while no instance has changed its entries, none has come or gone in this way, nobody acts, and none
// that was left out has come back.
func (c *Coordinator) stillSo(verdict *decision) []kv.Condition {
	view := verdict.view
	conditions := []kv.Condition{kv.NotWritten(c.keys.changes(), view.Revision), kv.IsAbsent(c.keys.intent())}
	if len(verdict.LeftOut) > 0 {
		conditions = append(conditions, kv.NotWritten(c.keys.instances(), view.Revision))
	}
	for key, entry := range view.entries {
		if at := c.keys.split(key); len(at) == 2 && at[0] == "changes" {
			conditions = append(conditions, kv.IsAt(key, entry.Version)) // also not deleted
		}
	}
	return conditions
}

// resume takes the lock to continue the intent of a former holder. It returns errNothingLeft if there is none.
func (c *Coordinator) resume(ctx context.Context) (*lockGrant, error) {
	if c.currentSettings().Mode != Global {
		return nil, errLocal
	}
	return c.take(ctx, func(view *View, token int64) ([]kv.Condition, *Intent, error) {
		if view.Intent == nil {
			return nil, nil, errNothingLeft
		}
		view.Intent.Token, view.Intent.Holder = token, c.name
		return []kv.Condition{kv.IsAt(c.keys.intent(), view.entries[c.keys.intent()].Version)}, view.Intent, nil
	})
}

// Intent is what is being done, as it was written last; nil if only the lock is held.
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

// Advance writes down that the present step is done. With more steps these take the place of those that are still
// to come: for a plan that turns out to be wrong. It returns ErrConflict if an Advance before it, whose outcome was unknown,
// had been written: Step then returns what that one published.
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

// Go lets the participants carry out a step that all of them have accepted, if none of them has left since the view, and taken what it
// has accepted along.
func (g *lockGrant) Go(ctx context.Context, view *View) error {
	next := g.Intent()
	next.AllAccepted = true
	prefixes := map[string]bool{}
	for _, id := range next.members() {
		prefixes[view.answersBelow[id]] = true
	}
	var conditions []kv.Condition
	for _, prefix := range sortedKeys(prefixes) {
		conditions = append(conditions, g.c.unchanged(view.snapshot(), prefix))
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

// commitIntent writes something while the lock is held, the intent is the one that this grant knows, and conditions are met.
// An Advance whose outcome was unknown may have published other steps: it returns ErrConflict then, and Step is the published
// one.
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
		return 0, g.fenced()
	}
	if readErr := json.Unmarshal([]byte(entry.Value), published); readErr != nil {
		return 0, fmt.Errorf("decoding the intent after a conflict: %w", readErr)
	}
	g.setIntent(published, entry.Version)
	return 0, err
}

// refresh learns what a write of this grant has published whose outcome was unknown.
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

// withdrawing returns what has to be met for withdrawing the present step from members: that no participant of them has
// accepted it since the view, or may carry it out. Fenced is set when the system refuses whatever was accepted under an
// older token.
func (g *lockGrant) withdrawing(view *View, fenced bool, ids ...MemberID) ([]kv.Condition, error) {
	intent := g.Intent()
	if step := intent.step(); step == nil || !step.Order {
		return nil, nil
	} else if step.Together && !intent.AllAccepted {
		return nil, nil // nobody carries it out before all have accepted it
	}
	for _, id := range ids {
		if view.Accepted(id) && (!fenced || view.Answers[id].Token >= intent.Token) {
			return nil, fmt.Errorf("withdrawing the order to %s %s: %w", intent.step().Do, id, ErrAccepted)
		}
	}
	return []kv.Condition{kv.NotWritten(g.c.keys.answers(), view.Revision)}, nil
}

// Skip goes on without members of the present step: it records why, drops them from the ones that the action is done to, and lets the
// given steps take the place of all later ones. The entries of the members stay pending. It returns ErrAccepted if one of them may
// be carrying out the step: only a fence makes that safe.
func (g *lockGrant) Skip(ctx context.Context, view *View, reason string, ids []MemberID, fenced bool, rest ...Step) error {
	next := g.Intent()
	if next.step() == nil {
		return errors.New("all steps are done: no step to skip a member of")
	}
	conditions, err := g.withdrawing(view, fenced, ids...)
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

// keptDone are how many records of what was done are kept for people to look at.
const keptDone = 10

// keptDoneSize is how many bytes they have together at most: those of large actions are large.
const keptDoneSize = 64 << 10

// removedDone are how many are removed at once: a transaction has its limits.
const removedDone = 50

// end writes down that all is done, and gives the lock back. With a reason it is given up instead, and what asked for it
// can ask again. It returns ErrAccepted if a participant may be carrying out the present step, unless the system refuses that by
// now.
func (g *lockGrant) end(ctx context.Context, failure string, fenced bool) error {
	intent := g.Intent()
	if intent == nil {
		return g.Release(ctx)
	}
	view, err := g.c.view(ctx)
	if err == nil {
		err = g.lost() // the view may have shown it
	}
	if err != nil {
		return err
	}
	var conditions []kv.Condition
	if step := intent.step(); step != nil {
		if conditions, err = g.withdrawing(view, fenced, step.Members...); err != nil {
			return err
		}
	}
	done := DoneRecord{Intent: *intent, Failure: failure, Until: g.c.clock.Now().UTC()}
	if failure == "" {
		done.StepIndex = len(done.Steps) // the last one is not written down before
	}
	g.ending.Store(true)
	if _, err := g.commitIntent(ctx, conditions, append(view.ending(done), kv.Delete(g.c.keys.lock()))...); err != nil {
		g.ending.Store(false)
		return err
	}
	g.c.metrics.acted(&done, g.c.clock.Now().Sub(g.since))
	g.cancel(context.Canceled)
	return nil
}

// ending writes down what was done, and removes the intent and old records.
func (v *View) ending(done DoneRecord) []kv.Operation {
	record := kv.Put(v.keys.done(tokenKey(done.Token)), encode(done))
	operations := []kv.Operation{record, kv.Delete(v.keys.intent())}
	for _, old := range outlived(v, keptDone-1, keptDoneSize-len(record.Value)) {
		if old.Token != done.Token {
			operations = append(operations, kv.Delete(v.keys.done(tokenKey(old.Token))))
		}
	}
	return operations
}

// outlived are the records that nothing depends on, but for the newest ones, up to a number and a size: no entry that they are
// about is still there, or they were given up.
func outlived(view *View, keep, keepSize int) []DoneRecord {
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
	return old[:min(len(old), removedDone)]
}

// memberOrder is what the holder of the lock wants a participant to do with some of its members.
type memberOrder struct {
	// Step is the current step, with these members only.
	Step
	// Intent and At identify the step for every holder: a participant that has carried it out does not repeat it under another
	// token.
	Intent int64
	At     int
	Token  int64
	// Accepted is set when this process has accepted the order, and Wait when it must not carry it out before all others have
	// accepted it too.
	Accepted, Wait bool

	version int64
	view    *View
}

// memberOrder returns what this participant is to do now, if anything. It is asked for some of the participant's own members.
func (c *Coordinator) order(view *View, mine ...MemberID) *memberOrder {
	step := view.Intent.step()
	if step == nil || !step.Order || view.Lock != nil && !view.IntentHeld() {
		return nil // also while somebody has the lock for something else
	}
	order := &memberOrder{
		Step: *step, Intent: view.Intent.ID, At: view.Intent.StepIndex, Token: view.Intent.Token, Accepted: true,
		Wait: step.Together && !view.Intent.AllAccepted, version: view.entries[c.keys.intent()].Version, view: view,
	}
	order.Members = nil
	for _, id := range step.Members {
		answer, given := view.Answers[id]
		given = given && answer.isOf(view.Intent)
		switch {
		case !slices.Contains(mine, id), given && answer.Done, given && answer.Fenced >= view.Intent.Token:
			continue // it is for another one, answered, or refused under this token
		case answer.pending(view.Intent) && answer.Session != c.process() && view.alive(answer.Session):
			continue // another process of this participant carries it out
		}
		if answer.pending(view.Intent) && answer.Session == c.process() {
			order.Token = min(order.Token, answer.Token) // a fence refuses what was accepted before it
		} else {
			order.Accepted = false
		}
		order.Members = append(order.Members, id)
	}
	if len(order.Members) == 0 {
		return nil
	}
	if !order.Accepted {
		order.Token = view.Intent.Token
	}
	return order
}

// process is the session of this process.
func (c *Coordinator) process() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered.session
}

// alive tells whether the process of a session is.
func (v *View) alive(session string) bool {
	return slices.ContainsFunc(v.processes, func(i Instance) bool { return i.Session == session })
}

// accept says that this process carries out an order: only then may it. It returns ErrConflict if the order was changed or
// withdrawn meanwhile. From then on the holder waits for the answer, unless the system itself can refuse what is done under an
// older token, or a person abandons the action.
func (c *Coordinator) accept(ctx context.Context, order *memberOrder) error {
	if order.Accepted {
		return nil
	}
	unchanged := []kv.Condition{
		kv.IsAt(c.keys.intent(), order.version), kv.IsAt(c.keys.lock(), order.view.entries[c.keys.lock()].Version),
	}
	err := c.writeAnswer(ctx, order, unchanged, Answer{Intent: order.Intent, Step: order.At, Token: order.Token, Session: c.process()})
	if err != nil {
		return fmt.Errorf("accepting the order to %s: %w", order.Step, err)
	}
	order.Accepted = true
	return nil
}

// outcome says what came of an order. It returns ErrConflict if another process has accepted the order meanwhile.
func (c *Coordinator) outcome(ctx context.Context, order *memberOrder, answer Answer) error {
	switch {
	case c.currentSettings().Mode != Global:
		return fmt.Errorf("answering the order to %s: %w", order.Step, errLocal)
	case !order.Accepted:
		return fmt.Errorf("answering the order to %s: it was not accepted", order.Step)
	}
	answer.Intent, answer.Step, answer.Token, answer.Session = order.Intent, order.At, order.Token, c.process()
	if err := c.writeAnswer(ctx, order, nil, answer); err != nil {
		return fmt.Errorf("answering the order to %s: %w", order.Step, err)
	}
	return nil
}

// writeAnswer writes an answer for all members of an order, if the ones that the order was read with are still there. For more than
// a transaction takes it writes several: each member has an answer of its own.
func (c *Coordinator) writeAnswer(ctx context.Context, order *memberOrder, conditions []kv.Condition, answer Answer) error {
	entries := order.view.entries
	for part := range slices.Chunk(order.Members, maxOperations) {
		t := kv.Transaction{If: slices.Clone(conditions)}
		prefixes := map[string]bool{}
		for _, id := range part {
			prefix := c.answersBelow(order, id)
			key := c.keys.answers(prefix, string(id))
			prefixes[prefix] = true
			t.If = append(t.If, kv.IsAt(key, entries[key].Version))
			t.Then = append(t.Then, kv.Put(key, encode(answer)))
		}
		for _, prefix := range sortedKeys(prefixes) {
			// It says whether entries are missing, so it must not be written by somebody who does not know that.
			t.If = append(t.If, c.unchanged(order.view.snapshot(), prefix))
			t.Then = append(t.Then, c.changed(entries, prefix))
		}
		revision, err := c.store.Commit(ctx, t)
		if err != nil {
			return err
		}
		for _, operation := range t.Then {
			entries[operation.Key] = kv.Entry{Value: operation.Value, Version: revision}
		}
	}
	return nil
}

// answersBelow returns the prefix below which the answer for a member is: where the order was accepted, also if a newer process of
// this participant has moved that since.
func (c *Coordinator) answersBelow(order *memberOrder, id MemberID) string {
	if prefix := order.view.answersBelow[id]; order.view.Answers[id].isOf(order.view.Intent) && order.view.nameOf(prefix) == c.name {
		return prefix
	}
	return c.currentSettings().Prefix
}

// wantedEntries are the entries that an instance should have: the addresses of members, by set.
type wantedEntries map[Set]map[MemberID][]string

// Want adds a member to a set.
func (w wantedEntries) Want(set Set, id MemberID, addresses ...string) {
	if w[set] == nil {
		w[set] = map[MemberID][]string{}
	}
	w[set][id] = addresses
}

// declare makes this instance's entries just those that it wants, and removes what it has answered to orders that are
// over. The view is one from before the instance looked at its members: what was done by then and is wanted
// nevertheless is wanted again.
func (c *Coordinator) declare(ctx context.Context, view *View, wants wantedEntries) error {
	mine := c.currentSettings()
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
	for _, key := range sortedKeys(view.entries) { // the parts of a large declaration follow an order
		if at := c.keys.split(key); len(at) == 3 && at[1] == mine.Prefix && c.outdated(view, at, wants) {
			changes = append(changes, change{Operation: kv.Delete(key), seen: view.entries[key].Version})
		}
	}
	err = c.updateFrom(ctx, mine.Prefix, view.snapshot(), changes)
	if errors.Is(err, kv.ErrConflict) { // the view is old
		err = c.retry(ctx, func() error { return c.update(ctx, mine.Prefix, changes) })
	}
	if err != nil {
		return fmt.Errorf("declaring the entries of %s in %s: %w", mine.Prefix, c.system, err)
	}
	return nil
}

// outdated tells whether an entry of this instance, given by the segments of its key, is not wanted any more.
func (c *Coordinator) outdated(view *View, at []string, wants wantedEntries) bool {
	set, id := Set(at[0]), MemberID(at[2])
	if at[0] == kindAnswers {
		return view.Intent == nil || view.Answers[id].Intent != view.Intent.ID
	}
	_, wanted := wants[set][id]
	return set.known() && !wanted
}

// updates add all of it.
func (w wantedEntries) updates() map[Set]setUpdates {
	all := map[Set]setUpdates{}
	for set, members := range w {
		all[set] = setUpdates{}
		for id, addresses := range members {
			all[set][id] = addEntry(addresses...)
		}
	}
	return all
}
