// Package inprocess runs the sharder of one ring inside one of the processes that are its shards. It needs no
// installation: the process declares the resources of the ring, and a watch replaces the webhook.
//
// It promises to come to the same decisions as the external sharder, with the same labels, Leases and
// writes, so that a ring can change from one to the other without moving objects; to assign an object as
// soon as it is created; and that its memory does not grow with the number of objects: it watches only
// objects without a shard, and keeps none.
package inprocess
