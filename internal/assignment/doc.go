// Package assignment decides what is to happen to one object: whether it stays where it is, is
// given to a shard, or has to be let go by its shard first.
//
// It promises that an object never goes from a live shard to another one without that shard's
// consent, that a controlled object never leaves a shard that still has its controller, and that
// an object which is where it belongs is not written.
package assignment
