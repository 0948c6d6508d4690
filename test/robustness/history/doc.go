// Package history records the events of processes and the writes of objects in a run, for a check when
// the run is over.
//
// Each process appends to its own file, one write for each event, before it continues: a killed process
// loses no events. All processes are on one machine and record its time, whatever clock they simulate.
//
// A Watcher in the test records the writes that the API server has stored, with the time at which it
// observed them, which can be later than the write. The order of writes does not depend on clocks: it is
// that of their resourceVersions, which are comparable across kinds in one etcd.
package history
