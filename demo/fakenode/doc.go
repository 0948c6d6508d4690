// Package fakenode is a node that accepts any number of pods and runs no containers.
//
// It does what the cluster expects of a kubelet: the node is Ready and renews its Lease, a pod that
// is bound to it becomes Running and Ready, and a pod that is being deleted is removed. It has the
// permissions of a node, and no others.
package fakenode
