// Package bench measures sharding on a real control plane with real processes. `make bench` runs it.
//
// Every figure stands beside its reference of the same run, because machines differ: a ratio can be
// compared, a number of seconds cannot. What is counted (writes, moves) is asserted; what is timed is
// only reported.
package bench
