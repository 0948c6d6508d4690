package membership

import "time"

// State of a shard, as the state label on its Lease shows it to people.
type State string

// The states. A shard is a member of its ring in the first three.
const (
	// Ready: it holds its Lease and renews it.
	Ready State = "ready"
	// Expired: it has not renewed in time, but may have been kept from it by an outage.
	Expired State = "expired"
	// Uncertain: it had the chance to come back. The sharder takes its Lease over.
	Uncertain State = "uncertain"
	// Dead: it does not hold its Lease, because it gave it up or the sharder has taken it.
	Dead State = "dead"
	// Orphaned: dead for long enough to be forgotten. The sharder deletes its Lease.
	Orphaned State = "orphaned"
)

// States are all states.
var States = []State{Ready, Expired, Uncertain, Dead, Orphaned}

// Member tells whether a shard in this state is on the ring.
func (s State) Member() bool { return s == Ready || s == Expired || s == Uncertain }

const (
	// DefaultDuration is that of a Lease that does not say.
	DefaultDuration = 15 * time.Second
	// ForgetAfter is how long after its expiry the Lease of a dead shard is kept.
	ForgetAfter = time.Minute
	// MaxDuration is the longest duration with which a Lease makes a member. The objects of a shard that
	// dies wait for that long. It is 240 times the default, and short enough to catch milliseconds that
	// were given as seconds: 15,000 are more than four hours.
	MaxDuration = time.Hour
	// MaxShards is how many members a ring can have. The rings of a working controller have tens; a ring
	// of thousands is an accident, or an attack, that must not take the sharder's memory from the others.
	MaxShards = 500
	// promptShare of its duration is the grace of a Lease that expired while others were renewed.
	promptShare = 10
)

// Lease is what counts of a shard's Lease, with the moment at which this process saw it change.
type Lease struct {
	// Shard is the Lease's name, Holder its holder: the shard itself if it is a member.
	Shard, Holder string
	// Duration is how long a renewal is good for.
	Duration time.Duration
	// Complete is whether the Lease had all its times. One that had not counts as expired when it
	// was seen.
	Complete bool
	// Leaving is whether the shard has said that it is about to leave and hands its objects over itself.
	Leaving bool
	// Seen is when this process saw the last renewal, by its own clock.
	Seen time.Time
}

// Held tells whether the shard holds its Lease. That alone makes it a member.
func (l Lease) Held() bool { return l.Holder != "" && l.Holder == l.Shard }

// expiry is when the last renewal has run out.
func (l Lease) expiry() time.Time {
	if !l.Complete {
		return l.Seen
	}
	return l.Seen.Add(l.Duration)
}

// StoppedAt is when a shard has stopped for certain that cannot renew, because its Lease is gone: the API server, which says
// so, works, and so the grace is the short one.
func (l Lease) StoppedAt() time.Time { return l.expiry().Add(l.Duration / promptShare) }

// StateOf returns the state of a shard at a time, and when to look again: the zero time if only a
// change of the Lease can change it. The renewals are those of all Leases of the same ring.
func StateOf(lease Lease, renewals Renewals, now time.Time) (state State, again time.Time) {
	expiry := lease.expiry()
	if !lease.Held() {
		if forget := expiry.Add(ForgetAfter); now.Before(forget) {
			return Dead, forget
		}
		return Orphaned, time.Time{}
	}
	if now.Before(expiry) {
		return Ready, expiry
	}
	if end := expiry.Add(grace(lease, renewals)); now.Before(end) {
		// A renewal of a peer may end the grace early, but that is a change of a Lease.
		return Expired, end
	}
	return Uncertain, time.Time{}
}

// grace is how long after its expiry a shard can still come back.
//
// What it is for: after an outage of the API server all Leases look expired at once, and declaring
// all shards dead would move every object for nothing. If a peer could renew at a time when this
// shard should have, there was no such outage, and waiting only leaves objects without an owner:
// the shard has stopped by itself at its renew deadline, before its Lease expired. If no peer could,
// there is nobody to move the objects to anyway.
func grace(lease Lease, renewals Renewals) time.Duration {
	// A shard tries to renew several times per duration and gives up after two thirds of it.
	missed := lease.Seen.Add(lease.Duration * 2 / 3)
	if renewals.ofOthers(lease.Shard).After(missed) {
		return lease.Duration / promptShare
	}
	return lease.Duration
}

// Renewals are the last two renewals in a ring, of two different shards: enough to know for each shard
// when another one could renew, without looking at all others. The zero value has none.
type Renewals struct{ last, before renewal }

type renewal struct {
	shard string
	seen  time.Time
}

// Add notes the renewal of a Lease, in any order. One that is not held proves nothing.
func (r *Renewals) Add(lease Lease) {
	if !lease.Held() || !lease.Complete {
		return
	}
	added := renewal{lease.Shard, lease.Seen}
	switch {
	case added.shard == r.last.shard:
		r.last.seen = later(r.last.seen, added.seen)
	case r.last.shard == "" || added.seen.After(r.last.seen):
		r.last, r.before = added, r.last
	case r.before.shard == "" || added.seen.After(r.before.seen):
		r.before = added
	}
}

// Has tells whether one of the renewals is a shard's.
func (r *Renewals) Has(shard string) bool { return r.last.shard == shard || r.before.shard == shard }

// ofOthers is when a shard other than this one was last seen to renew, or the zero time.
func (r *Renewals) ofOthers(shard string) time.Time {
	if r.last.shard == shard {
		return r.before.seen
	}
	return r.last.seen
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
