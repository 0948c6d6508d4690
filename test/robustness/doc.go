// Package robustness breaks what Ringmaster stands on while users and operators work, and sees that
// its promises hold: the real sharder in two replicas, real operators as shards, a real API server,
// real signals and a bad network.
//
// A run is recorded (package history) and judged when it is over (package oracle). What is promised,
// and how long it took here, is in docs/explanation/guarantees.md.
package robustness
