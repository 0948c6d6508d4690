// Package robustness injects faults while users and operators work, and checks the promises of
// Ringmaster: with the real sharder in two replicas, real operators as shards, a real API server, real
// signals and network faults.
//
// Each run is recorded (package history) and checked when it is over (package oracle). The promises, with
// measured times, are in docs/explanation/guarantees.md.
package robustness
