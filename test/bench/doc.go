// Package bench measures sharding on a real control plane with real processes. `make bench` runs it.
//
// Every figure has a reference of the same run, because machines differ: ratios can be compared, seconds cannot. Counts, such as
// writes and moves, are asserted; durations are only reported.
//
// Figures under a realistic load, such as the usage of one of three shards, are measured by experiment/, with one load generator
// and one way to measure; BenchmarkShare there reports their ratios. docs/explanation/evaluation.md lists which figure comes from
// where.
package bench
