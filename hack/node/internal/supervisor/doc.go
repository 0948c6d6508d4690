// Package supervisor runs the programs of a node inside its enclosure: the control plane,
// containerd, kube-proxy and kubelet. It starts them in the order in which they need each other,
// watches them, and stops them in the opposite order after the pods. When one of them ends by
// itself the node ends, and says why: a test must not go on with half a node.
package supervisor
