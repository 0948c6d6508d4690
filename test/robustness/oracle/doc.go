// Package oracle judges a recorded run: it reads the history afterwards and names each violation of
// what Ringmaster promises, with the object, the processes and the time.
//
// It is a pure function of the history. A write counts from the moment at which it was seen, which
// is never before it happened, so a process that is accused of having acted after a write did act
// after it; nobody is accused because the record was slow. Where only the order of writes matters,
// it is that of their resourceVersions, and no clock counts at all.
//
// Like leader election, Ringmaster is no fence. A process that hangs for longer than its Lease lasts
// can be in the middle of a reconcile when it wakes up, which it is not accused of; starting another
// one it is.
package oracle
