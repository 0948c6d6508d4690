// Package ring decides which shard an object belongs to, by consistent hashing.
//
// It promises that the answer depends on nothing but the set of shards and the key: not on the
// order in which shards are named, not on the process that asks. Adding a shard moves objects only
// to it, removing one only from it, and no shard gets much more than its share. A lookup does not
// allocate. A Ring is never changed after it was made, so any number of goroutines may use it.
package ring
