// Package membership knows whether this process is a shard right now, or leads, and who the other shards are.
//
// It promises that Valid is true only while the Lease is certainly this process's: it is counted from the start of the
// last renewal that succeeded, on a clock that also runs while the machine is suspended, and ends at the renew deadline,
// before the Lease expires. Two processes with one name are never both members; a Lease is released only after the work
// has ended, and never by a process that has lost it. No request outlasts its timeout, so that one which hangs does not
// cost the Lease.
//
// It does not know what the process works on.
package membership
