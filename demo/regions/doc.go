// Package regions runs an etcd cluster with members in three regions on a control plane of this
// machine. Each region is a namespace with its own operator and agent.
//
// It guarantees that every operator runs with its own ServiceAccount and the permissions of its
// manifests, and that Stop leaves nothing behind, in bounded time.
package regions
