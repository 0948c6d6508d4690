// Package assignment decides about one object: whether it stays with its owner, is assigned to
// another shard, or is drained first.
//
// It guarantees:
//   - An object leaves a live shard only after that shard has released it.
//   - A controlled object never leaves a shard that still owns its controller.
//   - An object whose owner is the desired one is not written.
package assignment
