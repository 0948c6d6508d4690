// Package agent plays the part of the kubelet for the members of one region: it starts etcd processes on this
// machine, and keeps those running that should run. It promises that
//
//   - nothing is done under a token that is lower than the highest it has seen of the same system, also after it was restarted
//     itself; whoever is refused is told that token;
//   - an order that is repeated is carried out once;
//   - orders are carried out one at a time, so one that was overtaken is refused and never done late;
//   - what it was told is on disk before it is done: an agent that dies and is started again goes on where it was;
//   - no process outlives it (Linux). It starts again what should run, with the arguments that it had.
//
// It decides nothing: which member starts when is the operators' to agree on. It has no authentication, and is meant
// for loopback.
package agent
