// Package status reports the state of rings, their shards and their objects, and explains why an object has its owner.
//
// It guarantees to decide as the sharder does, with the same code: which shards are members, which shard should own
// an object, which objects are sharded. It only reads. Without Query.Count it lists no objects: the numbers of objects
// are those that shards publish on their Leases. With it, objects are listed as metadata, in pages, and not kept, so
// that memory does not grow with their number. Anything that the user is not allowed to read is reported as unknown,
// with the reason.
//
// A report is of one moment. The clocks of shards and API servers differ from that of this computer, so a comparison
// with this clock is shown to people, and decides nothing except Ring.Problems.
package status
