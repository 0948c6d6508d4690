package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// grants are the holders of the lock by token, as observed.
type grants map[int64]string

// record records a grant, and returns violations.
func (g grants) record(lock *coordination.Lock) (wrong []string) {
	if holder, known := g[lock.Token]; known && holder != lock.Holder {
		wrong = append(wrong, fmt.Sprintf("%s and %s both have the token %d", holder, lock.Holder, lock.Token))
	}
	if newest := slices.Max(append(slices.Collect(maps.Keys(g)), 0)); lock.Token < newest {
		wrong = append(wrong, fmt.Sprintf("%s has the token %d after %d", lock.Holder, lock.Token, newest))
	}
	g[lock.Token] = lock.Holder
	return wrong
}

// invalidOrders returns the orders of one agent that should not have been carried out: repeated ones, ones with
// an older token than a previous order of the same system, or for a member of another system.
func invalidOrders(orders []order) (wrong []string) {
	tokens, systems := map[string]int64{}, map[string]string{}
	seen := map[string]bool{}
	for _, o := range orders {
		name, token := o.Order+" of "+o.Member, tokens[o.System]
		if system, known := systems[o.Member]; known && system != o.System {
			wrong = append(wrong, fmt.Sprintf("%s was carried out for %q, and the member is one of %q", name, o.System, system))
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

// overlappingOrders returns orders of different steps of a system that were carried out at the same time, by any
// agents.
func overlappingOrders(orders []order) (wrong []string) {
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

// downtime is an interval in which a member did not serve, from the first to the last failed probe.
type downtime struct {
	system, member string
	from, until    time.Time
}

// restartsWhileDown returns the restarts that began while another member of the system was down.
func restartsWhileDown(orders []order, downs []downtime) (wrong []string) {
	for _, o := range orders {
		for _, d := range downs {
			if o.operation() == "restart" && d.system == o.System && d.member != o.Member && d.from.Before(o.TS) && o.TS.Before(d.until) {
				wrong = append(wrong, fmt.Sprintf("%s of %s began while %s was down, from %s before until %s after", o.Order, o.Member, d.member,
					o.TS.Sub(d.from), d.until.Sub(o.TS)))
			}
		}
	}
	return wrong
}

// ledger is what a client knows about a store that it writes to and reads from.
type ledger struct {
	// acknowledged are the acknowledged values by key, last is the newest key.
	acknowledged map[string]string
	last         string
	reads        int
	violations   []string
}

func newLedger() *ledger { return &ledger{acknowledged: map[string]string{}} }

// recordWrite records an acknowledged write.
func (l *ledger) recordWrite(key, value string) { l.acknowledged[key], l.last = value, key }

// recordRead records the values of a key that was read, none if the key does not exist.
func (l *ledger) recordRead(key string, values ...string) {
	l.reads++
	if want := l.acknowledged[key]; !slices.Equal(values, []string{want}) {
		l.violations = append(l.violations, fmt.Sprintf("%s was acknowledged as %s, and %v was read", key, want, values))
	}
}

// lostKeys returns the acknowledged keys that the store does not have, or has with another value.
func (l *ledger) lostKeys(found map[string]string) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(l.acknowledged)) {
		if value, there := found[key]; !there || value != l.acknowledged[key] {
			keys = append(keys, key)
		}
	}
	return keys
}
