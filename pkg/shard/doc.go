// Package shard lets an instance of a controller join a ring, so that it works on its own share of
// the objects beside the other instances.
//
// A shard is a member of its ring for as long as it holds a Lease of its own, which it keeps as a
// leader keeps its one: it renews it, stops before it expires, and gives it up when it ends in good
// order. Like leader election this is no fence: an instance that hangs between two instructions for
// longer than the Lease lasts can still send what it had in mind when it wakes up.
package shard
