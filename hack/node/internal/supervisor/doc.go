// Package supervisor runs the programs of a node in its sandbox: the control plane, containerd,
// kube-proxy and kubelet. It starts them in the order of their dependencies, and stops them in the
// opposite order after the pods. If one of them ends by itself, the node ends and logs the reason, so
// that no test continues on an incomplete node.
package supervisor
