// Package shard lets an instance of a controller join a ring, so that it works on its own share of
// the objects beside the other instances.
//
// NewManager and ControllerManagedBy make a sharded operator of one that is written with
// controller-runtime. They promise that a reconciler is called only for objects of this shard, that
// its context ends when the object is taken away or the shard's Lease is lost, that an object is released
// only when no reconcile of it is running, its children before it, and that a shard which is
// stopped works on each object until it has handed it over to the next owner.
//
// A shard is a member of its ring while it holds a Lease of its own, as a leader does: it renews the
// Lease, stops before it expires, and releases it on a graceful stop. Like leader election this is not
// fencing: an instance that hangs between two instructions for longer than the Lease lasts can still
// send a write that it had prepared when it wakes up.
//
// Lease is for operators without controller-runtime: it keeps the membership and nothing else. Shard is
// for those who set their manager up themselves.
package shard
