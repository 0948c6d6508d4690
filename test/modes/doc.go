// Package modes runs several processes of the sample operator's real binary in each mode of pkg/shard, and
// shows that it behaves the same in all of them: one suite, with faults, passes in the modes lead, shard and
// in-process.
//
// The oracle of test/robustness checks the logs of the processes afterwards: no Website is reconciled by two
// processes at a time, by one that does not own it, or by one that has lost its Lease.
package modes
