// Package moves assigns every object of a ring to the shard that should own it.
//
// It promises that unassigned and orphaned objects come first; that a change of the members takes effect at once,
// also during a pass; that every write has the object's resourceVersion as its precondition, so that no change of
// other clients is lost; that an object that cannot be written is retried with backoff and does not delay others;
// that no ring can starve the others; and that its memory does not grow with the number of objects: it lists
// metadata in pages and watches nothing. It needs only the verbs list and patch.
package moves
