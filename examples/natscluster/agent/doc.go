// Package agent runs the NATS servers of one region as processes, as a kubelet would.
//
// It promises that a server changes only by an order, that an order which was carried out is not carried out again, and that one
// with an older token than the newest one it has seen is refused. A server that ends unasked is started again as it was. The servers
// end with the agent, which keeps nothing but their data.
package agent
