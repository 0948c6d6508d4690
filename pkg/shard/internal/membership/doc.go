// Package membership knows whether this process is a member of its ring or the leader right now, and
// lists the other shards.
//
// It guarantees:
//   - Valid is true only while this process certainly holds the Lease. The time counts from the start
//     of the last successful renewal, on a clock that also runs while the machine is suspended, and
//     ends at the renew deadline, before the Lease expires.
//   - Two processes with the same name are never members at the same time.
//   - A Lease is released only after the work has ended, and never by a process that has lost it.
//   - Every request has a timeout, so that a hanging request does not cause the loss of the Lease.
//
// It does not know the objects of the shard.
package membership
