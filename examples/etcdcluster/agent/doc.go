// Package agent plays the role of the kubelet for the members of one region: it starts etcd processes on this
// machine, and restarts them if they end. It guarantees that
//
//   - it refuses an order with a token lower than the highest that it has seen of the same system, also after its own restart; the
//     refusal contains the highest token;
//   - a repeated order is carried out once;
//   - orders are carried out one at a time, so an outdated order is refused and never carried out late;
//   - an order is on disk before it is carried out: an agent that is restarted continues where it was;
//   - no member process outlives the agent (Linux). A restarted agent starts the members again, with their last arguments.
//
// The agent makes no decisions: the operators agree on when each member starts. It has no authentication, and is meant
// for loopback.
package agent
