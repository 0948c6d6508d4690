// Package shard lets an instance of a controller join a ring, so that it works on its own share of
// the objects beside the other instances.
//
// NewManager and ControllerManagedBy make a sharded operator of one that is written with
// controller-runtime. They promise that a reconciler is called only for objects of this shard, that
// its context ends when the object is taken away or the shard's Lease is lost, that an object is let
// go only when nobody here works on it any more, its children before it, and that a shard which is
// stopped works on each object until it has given it to the next shard.
//
// A shard is a member of its ring for as long as it holds a Lease of its own, which it keeps as a
// leader keeps its one: it renews it, stops before it expires, and gives it up when it ends in good
// order. Like leader election this is no fence: an instance that hangs between two instructions for
// longer than the Lease lasts can still send what it had in mind when it wakes up.
//
// Lease is for operators without controller-runtime: it keeps the membership and nothing else. Shard is
// for those who set their manager up themselves.
package shard
