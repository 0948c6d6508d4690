// Package moves brings every object of a ring to the shard that it belongs to, and keeps it there.
//
// It promises that objects without a live shard come first; that a change of the ring's members is
// taken up at once, also in the middle of a move; that every write has the object's resourceVersion
// as its precondition, so that nobody's change is lost; and that its memory does not grow with the
// number of objects: they are read in pages, metadata only, and never watched.
package moves
