// Package ownership knows which objects are this shard's, learns when that changes, and releases them safely.
//
// It promises that a reconcile begins only on an object that this shard owns and that is not being released; that its
// context ends when another shard gets the object; that an object is released only when no reconcile of it is running,
// with its children first, in one write whose precondition is the version that was decided about; that a reconcile never
// begins on what a cache still shows of an object after its release; and that an object whose release is refused stays
// this shard's, with its children, and is worked on.
//
// An owner is recorded in a label of the object. Only labels.go knows that.
package ownership
