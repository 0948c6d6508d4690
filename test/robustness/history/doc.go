// Package history records what the processes of a run did and what became of the objects, so that
// the run can be judged when it is over.
//
// Each process appends to a file of its own, one write for each event, and an event is in the file
// before what it tells of goes on: a process that is killed loses nothing that had happened. All
// processes are on one machine and record its time, whatever clock they work with.
//
// What the API server stored is recorded by a Watcher in the test. Its times are those of seeing a
// write, so a write is never later than the record says, and maybe earlier. The order of writes does
// not depend on any clock: it is that of their resourceVersions, which one etcd counts for all kinds.
package history
