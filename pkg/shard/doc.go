// Package shard makes a process a shard of a ring. Each shard reconciles the objects that it owns,
// concurrently with the other shards.
//
// NewManager and ControllerManagedBy shard an operator that is written with controller-runtime. They
// guarantee:
//   - A reconciler is called only for objects that this shard owns.
//   - Its context ends when another shard gets the object or this shard loses its Lease.
//   - An object is released only when no reconcile of it is running, and after its children.
//   - A shard that is stopped reconciles each object until it has handed it over to the next owner.
//
// A shard is a member of its ring while it holds its own Lease: as in leader election, it renews the
// Lease, stops before the Lease expires, and releases it on a graceful stop. Like leader election this
// is not fencing: a process that hangs between two instructions for longer than the lease duration can
// still send a write that it had prepared before.
//
// Operators without controller-runtime use Lease, which provides the membership only. Operators that
// make their manager themselves use Shard.
package shard
