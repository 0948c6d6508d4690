// Package moves assigns every object of a ring to the shard that should own it, and keeps it there.
//
// It promises that objects without a live owner come first; that a change of the ring's members is picked up at once,
// also in the middle of a move; that every write has the object's resourceVersion as its precondition, so that no
// change of others is lost; that what fails for good is retried with a backoff, alone; that no ring can use up what
// the others need; and that its memory does not grow with the number of objects: they are read in pages, metadata only,
// and never watched. It needs no verbs but list and patch.
package moves
