// Package modes runs the sample operator's real binary, several processes of it, in each of the ways that
// pkg/shard knows, and promises that it behaves the same in all of them: one suite, which is rough with
// the processes, passes in the modes lead, shard and in-process.
//
// What the processes did is read from their logs afterwards, and judged by the same oracle that judges
// test/robustness: no Website is worked on by two at a time, by one that it does not belong to, or by one
// that has lost its Lease.
package modes
