// Package ring assigns keys to shards by consistent hashing.
//
// It guarantees that the owner of a key depends only on the key and the set of shards: not on the
// order in which shards are listed, and not on the process that asks. A new shard takes keys from
// all others, a removed shard passes its keys to all others, no other key moves, and the keys are
// spread almost evenly.
//
// A Ring is immutable and safe for concurrent use. Its lookup table is built on the first lookup;
// later lookups do not allocate. Tables bounds the memory of the lookup tables of many rings.
package ring
