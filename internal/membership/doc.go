// Package membership decides from Leases which shards are members of a ring and what to do about
// those that have stopped renewing.
//
// It promises that no clock but this process's counts, and that only for durations: a Lease is
// timed from the moment at which this process saw it change, as in leader election, so a shard
// whose clock is off by minutes is as alive as any other. Who is a member does not depend on time
// at all, so all replicas agree on it as soon as they have seen the same Leases.
package membership
