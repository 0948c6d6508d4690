package coordination

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// The functions of this file are for people: they end what no participant ends by itself.

var (
	// ErrAlive is returned when what is to be forgotten belongs to a participant that is alive.
	ErrAlive = errors.New("a participant with this prefix is alive")
	// ErrNoIntent is returned when there is no intent to abandon.
	ErrNoIntent = errors.New("there is no intent")
	// ErrNoLock is returned when there is no lock to break.
	ErrNoLock = errors.New("nobody holds the lock")
)

// Forget removes all that participants with a prefix have written which will never return. It is the one case in
// which somebody writes below the prefix of somebody else; as long as one of them lives, nothing is removed. It returns
// ErrAccepted while they may be carrying out an order: without their answer it would count as one that nobody has accepted.
func Forget(ctx context.Context, store kv.Store, root, system, prefix string) error {
	if err := checkSegment("the prefix", prefix); err != nil {
		return err
	}
	view, err := Look(ctx, store, root, system)
	if err != nil {
		return err
	}
	if view.Takes(prefix) {
		return fmt.Errorf("%w: end it, or set it to local mode, which cleans up: %s", ErrAlive, prefix)
	}
	k := view.keys
	if accepted := view.acceptedBy(prefix); len(accepted) > 0 {
		return fmt.Errorf("forgetting %s of %s: the order about %s: %w; abandon the intent first", prefix, system, joined(accepted), ErrAccepted)
	}
	t := kv.Transaction{
		If: []kv.Condition{
			// One that comes back meanwhile registers, and then its entries are its own again.
			kv.NotWritten(k.instances(prefix), view.Revision),
			// One that hangs may accept an order although its session is over.
			kv.NotWritten(k.answers(prefix), view.Revision),
		},
		Then: []kv.Operation{kv.Delete(k.changes(prefix))},
	}
	for _, path := range k.ownedBy(view.snapshot(), prefix) {
		t.Then = append(t.Then, kv.DeleteBelow(path))
	}
	if _, err := store.Commit(ctx, t); err != nil {
		return fmt.Errorf("forgetting %s of %s: %w", prefix, system, err)
	}
	return nil
}

// Abandon ends what is being done, because nobody will finish it: it removes the intent and the lock of its holder, and records
// the intent as given up, with the reason. It returns that record, ErrNoIntent if nothing is being done, and ErrConflict if the
// intent or the lock has changed since they were read: then somebody works on it.
//
// The holder is fenced: the store refuses what it still writes. What the intent was about stays pending, and is tried again under
// a higher token. But a participant that has accepted the present order, or a holder that hangs in a step of its own, may still
// carry it out, under the old token and beside whatever is begun next. Only a system that refuses older tokens stops that. Its
// answer never counts for a later intent.
func Abandon(ctx context.Context, store kv.Store, root, system, reason string) (*Done, error) {
	if reason == "" {
		return nil, fmt.Errorf("abandoning the intent of %s: the reason is empty; say why, for those who read the record", system)
	}
	view, err := Look(ctx, store, root, system)
	if err != nil {
		return nil, err
	}
	if view.Intent == nil {
		return nil, fmt.Errorf("abandoning the intent of %s: %w", system, ErrNoIntent)
	}
	k := view.keys
	done := Done{Intent: *view.Intent, Failure: "abandoned by a person: " + reason, Until: clock.RealClock{}.Now().UTC()}
	t := kv.Transaction{
		If: []kv.Condition{
			kv.IsAt(k.intent(), view.entries[k.intent()].Version),
			kv.IsAt(k.lock(), view.entries[k.lock()].Version), // nobody goes on with it meanwhile
		},
		Then: view.ending(done),
	}
	if view.Acts() {
		t.Then = append(t.Then, kv.Delete(k.lock()))
	}
	if _, err := store.Commit(ctx, t); err != nil {
		return nil, fmt.Errorf("abandoning the %s of %s: %w", done.Action, system, err)
	}
	return &done, nil
}

// BreakLock removes the lock, and nothing else. It returns the lock, ErrNoLock if there is none, and ErrConflict if another
// participant has it by now.
//
// The holder is fenced: the store refuses what it still writes. The next participant that looks, which may be the same one, goes
// on with the intent under a higher token. The step that the holder was in may then be carried out twice at the same time, unless
// the system refuses older tokens. To keep the participant from taking the lock again, deny it first: Settings.Denied.
func BreakLock(ctx context.Context, store kv.Store, root, system string) (*Lock, error) {
	view, err := Look(ctx, store, root, system)
	if err != nil {
		return nil, err
	}
	if view.Lock == nil {
		return nil, fmt.Errorf("breaking the lock of %s: %w", system, ErrNoLock)
	}
	k := view.keys
	// It only deletes: that is all that an etcd without space accepts.
	_, err = store.Commit(ctx, kv.Transaction{
		If: []kv.Condition{kv.IsAt(k.lock(), view.entries[k.lock()].Version)}, Then: []kv.Operation{kv.Delete(k.lock())},
	})
	if err != nil {
		return nil, fmt.Errorf("breaking the lock of %s: %w", system, err)
	}
	return view.Lock, nil
}

// Acts tells whether the holder of the lock is the one that carries out the intent. A lock that was taken alone, as in local
// mode, has nothing to do with an intent that was left behind.
func (v *View) Acts() bool {
	return v.Lock != nil && v.Intent != nil && v.Lock.Token == v.Intent.Token
}
