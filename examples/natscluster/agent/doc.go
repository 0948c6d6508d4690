// Package agent runs the NATS servers of one region as processes, as a kubelet would.
//
// It guarantees that a server changes only by an order, that a repeated order is carried out once, and that an order with an older token
// than the highest one is refused. A server that crashes is started again with the same configuration. The servers stop with the agent,
// which keeps only their data.
package agent
