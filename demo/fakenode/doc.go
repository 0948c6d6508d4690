// Package fakenode pretends to be a node that can take any number of pods and runs none of them.
//
// It promises what the rest of the cluster expects of a kubelet: the node is Ready and renews its
// Lease, a pod that is bound to it becomes Running and Ready, and one that is deleted goes. No
// container is ever started. It has the rights of a node, and no others.
package fakenode
