// Package membership decides from Leases which shards are members of a ring, and whether a shard
// that does not renew its Lease is dead.
//
// It guarantees:
//   - The set of members depends only on the holders of the Leases and not on time, so all replicas
//     of the sharder agree on it when they have seen the same Leases.
//   - The clocks of other machines do not matter. As in leader election, a Lease is timed from the
//     moment at which this process observed its renewal.
package membership

import "time"

// State is the state of a shard, which the state label on its Lease shows.
type State string

// The states. A shard is a member of its ring in the first three.
const (
	// Ready means that the shard holds its Lease and renews it.
	Ready State = "ready"
	// Expired means that the shard has not renewed its Lease in time, maybe because of an outage.
	Expired State = "expired"
	// Uncertain means that the grace period after the expiry is over. The sharder takes the Lease over.
	Uncertain State = "uncertain"
	// Dead means that the shard does not hold its Lease, because it was released or taken over.
	Dead State = "dead"
	// Orphaned means that the shard has been dead for a while. The sharder deletes its Lease.
	Orphaned State = "orphaned"
)

// States are all states.
var States = []State{Ready, Expired, Uncertain, Dead, Orphaned}

// Member reports whether a shard in this state is a member of its ring.
func (s State) Member() bool { return s == Ready || s == Expired || s == Uncertain }

const (
	// DefaultDuration is the duration of a Lease that has none.
	DefaultDuration = 15 * time.Second
	// orphanedAfter is the time after its expiry until the Lease of a dead shard is orphaned.
	orphanedAfter = time.Minute
	// MaxDuration is the maximum duration of a member's Lease, for which the objects of a dead shard may
	// have to wait. It is short enough to refuse a duration in milliseconds: 15,000 seconds are four hours.
	MaxDuration = time.Hour
	// MaxShards is the maximum number of members of a ring. Real rings have tens; thousands are a mistake
	// or an attack, which must not exhaust the sharder's memory.
	MaxShards = 500
	// shortGraceDivisor is the duration of a Lease divided by its grace period, if it expired while
	// other shards renewed theirs.
	shortGraceDivisor = 10
)

// Lease has the facts of a shard's Lease that decisions depend on.
type Lease struct {
	// Shard is the name of the Lease, and Holder its holder. They are the same for a member.
	Shard, Holder string
	// Duration is the time from a renewal to the expiry.
	Duration time.Duration
	// Complete is true if the Lease has a duration and all its times. Otherwise it counts as expired
	// since it was observed.
	Complete bool
	// Leaving is true if the shard has announced that it is leaving and hands its objects over itself.
	Leaving bool
	// Seen is the time at which this process observed the last renewal, on its own clock.
	Seen time.Time
}

// Held reports whether the shard holds its Lease, which makes it a member.
func (l Lease) Held() bool { return l.Holder != "" && l.Holder == l.Shard }

// expiry returns the time at which the Lease expires.
func (l Lease) expiry() time.Time {
	if !l.Complete {
		return l.Seen
	}
	return l.Seen.Add(l.Duration)
}

// StoppedAt returns the time after which a shard whose Lease was deleted has certainly stopped. The
// short grace period applies, because the API server reported the deletion and so works.
func (l Lease) StoppedAt() time.Time { return l.expiry().Add(l.Duration / shortGraceDivisor) }

// StateOf returns the state of a shard, and the time at which it changes unless the Lease changes
// before. That time is zero if only a change of the Lease changes the state. renewals are those of
// all Leases of the ring.
func StateOf(lease Lease, renewals Renewals, now time.Time) (state State, until time.Time) {
	expiry := lease.expiry()
	if !lease.Held() {
		if orphaned := expiry.Add(orphanedAfter); now.Before(orphaned) {
			return Dead, orphaned
		}
		return Orphaned, time.Time{}
	}
	if now.Before(expiry) {
		return Ready, expiry
	}
	if end := expiry.Add(grace(lease, renewals)); now.Before(end) {
		// A renewal of another shard can shorten the grace period, but that is a change of a Lease.
		return Expired, end
	}
	return Uncertain, time.Time{}
}

// grace returns the grace period, during which a shard whose Lease has expired is still a member.
//
// After an outage of the API server all Leases look expired at once. Without a grace period every
// object would move. If another shard renewed its Lease when this one should have, the API server
// worked, and the grace period only delays the move of its objects: the shard stopped at its renew
// deadline, before the expiry. If no other shard did, none is ready to get the objects anyway.
func grace(lease Lease, renewals Renewals) time.Duration {
	// The default renew deadline is two thirds of the lease duration.
	missed := lease.Seen.Add(lease.Duration * 2 / 3)
	if renewals.ofOthers(lease.Shard).After(missed) {
		return lease.Duration / shortGraceDivisor
	}
	return lease.Duration
}

// Renewals has the last renewals of two different shards of a ring. They show for each shard when
// another one last renewed its Lease. The zero value has none.
type Renewals struct{ last, previous renewal }

type renewal struct {
	shard string
	seen  time.Time
}

// Add adds the last renewal of a Lease, in any order. Leases that their shards do not hold do not count.
func (r *Renewals) Add(lease Lease) {
	if !lease.Held() || !lease.Complete {
		return
	}
	added := renewal{lease.Shard, lease.Seen}
	switch {
	case added.shard == r.last.shard:
		if added.seen.After(r.last.seen) {
			r.last = added
		}
	case r.last.shard == "" || added.seen.After(r.last.seen):
		r.last, r.previous = added, r.last
	case r.previous.shard == "" || added.seen.After(r.previous.seen):
		r.previous = added
	}
}

// Has reports whether one of the renewals is a shard's.
func (r *Renewals) Has(shard string) bool { return r.last.shard == shard || r.previous.shard == shard }

// ofOthers returns the time at which a renewal of another shard was last observed, or the zero time.
func (r *Renewals) ofOthers(shard string) time.Time {
	if r.last.shard == shard {
		return r.previous.seen
	}
	return r.last.seen
}
