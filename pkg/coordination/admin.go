package coordination

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// The functions of this file are for administrators: they end an action or a lock that no participant ends by itself.

var (
	// ErrAlive is returned by Forget while the participant is alive.
	ErrAlive = errors.New("a participant with this prefix is alive")
	// ErrNoIntent is returned by Abandon when no action is in progress.
	ErrNoIntent = errors.New("no action is in progress")
	// ErrNoLock is returned by BreakLock when no participant holds the lock.
	ErrNoLock = errors.New("nobody holds the lock")
)

// Forget removes all entries of a participant that will never return. It is the only operation that writes below the prefix of
// another participant. It returns ErrAlive while a process of the participant is alive, and ErrAccepted while the participant may be
// carrying out an order: without its answer, the order would count as not accepted.
func Forget(ctx context.Context, store kv.Store, root, system, prefix string) error {
	if err := checkSegment("the prefix", prefix); err != nil {
		return err
	}
	view, err := ReadView(ctx, store, root, system)
	if err != nil {
		return err
	}
	if view.Present(prefix) {
		return fmt.Errorf("%w: stop it, or switch it to local mode, which removes its entries: %s", ErrAlive, prefix)
	}
	k := view.keys
	if accepted := view.acceptedBy(prefix); len(accepted) > 0 {
		return fmt.Errorf("forgetting %s of %s: the order about %s: %w; abandon the intent first", prefix, system, joinMembers(accepted), ErrAccepted)
	}
	t := kv.Transaction{
		If: []kv.Condition{
			// A participant that returns in between registers, and needs its entries.
			kv.NotWritten(k.instances(prefix), view.Revision),
			// A process that hangs may accept an order although its session has expired.
			kv.NotWritten(k.answers(prefix), view.Revision),
		},
		Then: []kv.Operation{kv.Delete(k.changes(prefix))},
	}
	for _, path := range k.pathsOwnedBy(view.snapshot(), prefix) {
		t.Then = append(t.Then, kv.DeleteBelow(path))
	}
	if _, err := store.Commit(ctx, t); err != nil {
		return fmt.Errorf("forgetting %s of %s: %w", prefix, system, err)
	}
	return nil
}

// Abandon ends an action that no participant will finish: it removes the intent and the lock of its holder, and records the intent
// as given up, with the reason. It returns that record. It returns ErrNoIntent if no action is in progress, and ErrConflict if the
// intent or the lock has just changed, which shows that a participant is active.
//
// The holder is fenced: the store refuses its further writes. The members of the intent stay pending, and the action is retried
// under a higher token. But a participant that has accepted the current order, or a holder that hangs in a step of its own, may still
// carry the step out under the old token, at the same time as the next intent. Only a system that refuses older tokens prevents
// that. The answer of such a participant never counts for a later intent.
func Abandon(ctx context.Context, store kv.Store, root, system, reason string) (*DoneRecord, error) {
	if reason == "" {
		return nil, fmt.Errorf("abandoning the intent of %s: the reason is empty: state why, for the record", system)
	}
	view, err := ReadView(ctx, store, root, system)
	if err != nil {
		return nil, err
	}
	if view.Intent == nil {
		return nil, fmt.Errorf("abandoning the intent of %s: %w", system, ErrNoIntent)
	}
	k := view.keys
	done := DoneRecord{Intent: *view.Intent, Failure: "abandoned by a person: " + reason, Until: clock.RealClock{}.Now().UTC()}
	t := kv.Transaction{
		If: []kv.Condition{
			kv.IsAt(k.intent(), view.entries[k.intent()].Version),
			kv.IsAt(k.lock(), view.entries[k.lock()].Version), // no participant continues it in between
		},
		Then: view.endOperations(done),
	}
	if view.IntentHeld() {
		t.Then = append(t.Then, kv.Delete(k.lock()))
	}
	if _, err := store.Commit(ctx, t); err != nil {
		return nil, fmt.Errorf("abandoning the %s of %s: %w", done.Action, system, err)
	}
	return &done, nil
}

// BreakLock removes the lock, and nothing else. It returns the former lock. It returns ErrNoLock if no participant holds the lock,
// and ErrConflict if another participant has taken it in between.
//
// The former holder is fenced: the store refuses its further writes. The next participant continues the intent under a higher token;
// it may be the same participant. The current step may then be carried out twice at the same time, unless the system refuses older
// tokens. To keep the participant from taking the lock again, deny it first: Settings.Denied.
func BreakLock(ctx context.Context, store kv.Store, root, system string) (*Lock, error) {
	view, err := ReadView(ctx, store, root, system)
	if err != nil {
		return nil, err
	}
	if view.Lock == nil {
		return nil, fmt.Errorf("breaking the lock of %s: %w", system, ErrNoLock)
	}
	k := view.keys
	// It only deletes: an etcd without space accepts nothing else.
	_, err = store.Commit(ctx, kv.Transaction{
		If: []kv.Condition{kv.IsAt(k.lock(), view.entries[k.lock()].Version)}, Then: []kv.Operation{kv.Delete(k.lock())},
	})
	if err != nil {
		return nil, fmt.Errorf("breaking the lock of %s: %w", system, err)
	}
	return view.Lock, nil
}

// IntentHeld reports whether the holder of the lock carries out the intent. A lock that was taken in local mode is unrelated to an
// intent that a former holder has left behind.
func (v *View) IntentHeld() bool {
	return v.Lock != nil && v.Intent != nil && v.Lock.Token == v.Intent.Token
}
