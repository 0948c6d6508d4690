// Package ownership tracks the objects that this shard owns and releases them safely.
//
// It guarantees:
//   - A reconcile begins only on an object that this shard owns and is not releasing.
//   - The context of a reconcile ends when another shard gets the object.
//   - An object is released only when no reconcile of it is running, after its children, in one write
//     whose precondition is the version on which the decision is based.
//   - After a release, no reconcile begins on the object that an outdated cache still shows.
//   - If a release is refused, this shard keeps the object with its children, and reconciles it.
//
// The owner is recorded in a label of the object. Only labels.go accesses this label.
package ownership
