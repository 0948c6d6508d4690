// Package ring decides which shard an object belongs to, by consistent hashing.
//
// It promises that the answer depends on nothing but the set of shards and the key: not on the
// order in which shards are named, not on the process that asks. Adding a shard moves objects only
// to it, removing one only from it, and no shard gets much more than its share.
//
// The set of a Ring never changes, so any number of goroutines may use it. What a lookup needs is
// built by the first one and shared by all others, which do not allocate; until then a Ring takes
// only the memory of its names. Tables bounds the memory of many rings.
package ring
