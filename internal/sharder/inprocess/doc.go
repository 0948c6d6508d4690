// Package inprocess is the sharder of one ring, inside one of the instances that are its shards. Nothing has to
// be installed for it: what the ring spreads is what the instance's code says, and there is no webhook.
//
// It promises to come to the same decisions as the external sharder, with the same labels, Leases and
// writes, so that a ring can change from one to the other and no object moves; that an object without a
// shard gets one as soon as it is there; and that its memory does not grow with the number of objects: of
// those it hears only as long as they have no shard, and keeps none.
package inprocess
