package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

// wrongOrders are those of one agent that should not have been carried out: again, under a token that was older than
// one before of the same system, or for a member of another system.
func wrongOrders(orders []order) (wrong []string) {
	tokens, systems := map[string]int64{}, map[string]string{}
	seen := map[string]bool{}
	for _, o := range orders {
		name, token := o.Order+" of "+o.Member, tokens[o.System]
		if of, known := systems[o.Member]; known && of != o.System {
			wrong = append(wrong, fmt.Sprintf("%s was carried out for %q, and the member is one of %q", name, o.System, of))
		}
		if seen[name] {
			wrong = append(wrong, name+" was carried out twice")
		}
		if o.Token < token {
			wrong = append(wrong, fmt.Sprintf("%s was carried out under the token %d after %d", name, o.Token, token))
		}
		seen[name], tokens[o.System], systems[o.Member] = true, max(token, o.Token), o.System
	}
	return wrong
}

// overlaps are the orders of different steps of a system that were carried out at the same time, by whichever agents.
func overlaps(orders []order) (wrong []string) {
	step := func(o order) string { return o.System + ": " + o.Order[:max(0, strings.LastIndex(o.Order, "/"))] }
	for i, a := range orders {
		for _, b := range orders[:i] {
			if a.System == b.System && step(a) != step(b) && a.TS.Before(b.Until) && b.TS.Before(a.Until) {
				wrong = append(wrong, fmt.Sprintf("%s of %s and %s of %s were carried out at the same time", b.Order, b.Member, a.Order, a.Member))
			}
		}
	}
	return wrong
}

// down is for how long a member did not serve, as somebody has seen who asked it again and again: at least from the first time until
// the last one.
type down struct {
	system, member string
	from, until    time.Time
}

// besides are the orders to restart a member that were begun while another one of its system was down.
func besides(orders []order, downs []down) (wrong []string) {
	for _, o := range orders {
		for _, d := range downs {
			if o.does() == "restart" && d.system == o.System && d.member != o.Member && d.from.Before(o.TS) && o.TS.Before(d.until) {
				wrong = append(wrong, fmt.Sprintf("%s of %s began while %s was down, from %s before until %s after", o.Order, o.Member, d.member,
					o.TS.Sub(d.from), d.until.Sub(o.TS)))
			}
		}
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
