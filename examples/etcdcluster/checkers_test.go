package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// grants are the holders of the lock, by token, as somebody has seen them.
type grants map[int64]string

// note takes a lock, and returns what should not be.
func (g grants) note(lock *coordination.Lock) (wrong []string) {
	if holder, known := g[lock.Token]; known && holder != lock.Holder {
		wrong = append(wrong, fmt.Sprintf("%s and %s both have the token %d", holder, lock.Holder, lock.Token))
	}
	if newest := slices.Max(append(slices.Collect(maps.Keys(g)), 0)); lock.Token < newest {
		wrong = append(wrong, fmt.Sprintf("%s has the token %d after %d", lock.Holder, lock.Token, newest))
	}
	g[lock.Token] = lock.Holder
	return wrong
}

// wrongOrders are those of one agent that should not have been carried out: again, or under a token that was older than
// one before.
func wrongOrders(orders []order) (wrong []string) {
	var token int64
	seen := map[string]bool{}
	for _, o := range orders {
		name := o.Order + " of " + o.Member
		if seen[name] {
			wrong = append(wrong, name+" was carried out twice")
		}
		if o.Token < token {
			wrong = append(wrong, fmt.Sprintf("%s was carried out under the token %d after %d", name, o.Token, token))
		}
		seen[name], token = true, max(token, o.Token)
	}
	return wrong
}

// ledger is what a client knows of a store that it writes to and reads from.
type ledger struct {
	// acknowledged are the values that the store has said it has, last is the key of the newest.
	acknowledged map[string]string
	last         string
	reads        int
	wrong        []string
}

func newLedger() *ledger { return &ledger{acknowledged: map[string]string{}} }

// acknowledge notes that a write was.
func (l *ledger) acknowledge(key, value string) { l.acknowledged[key], l.last = value, key }

// read notes what was read of a key. The store says nothing of a key that it does not have.
func (l *ledger) read(key string, values ...string) {
	l.reads++
	if want := l.acknowledged[key]; !slices.Equal(values, []string{want}) {
		l.wrong = append(l.wrong, fmt.Sprintf("%s was acknowledged as %s, and %v was read", key, want, values))
	}
}

// lost are the keys that were acknowledged and that the store has not, or not with this value.
func (l *ledger) lost(found map[string]string) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(l.acknowledged)) {
		if value, there := found[key]; !there || value != l.acknowledged[key] {
			keys = append(keys, key)
		}
	}
	return keys
}
