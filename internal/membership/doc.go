// Package membership decides from Leases which shards are members of a ring, and whether a shard
// that does not renew its Lease is dead.
//
// It guarantees:
//   - The set of members depends only on the holders of the Leases and not on time, so all replicas
//     of the sharder agree on it when they have seen the same Leases.
//   - The clocks of other machines do not matter. As in leader election, a Lease is timed from the
//     moment at which this process observed its renewal.
package membership
