// Package e2e tests the product on a real cluster, with nodes, pods and Services. 'make e2e' starts such a
// cluster on this machine. With KUBECONFIG set, the tests use that cluster, which must have the images
// of 'make images':
//
//	KUBECONFIG    the cluster's kubeconfig
//	E2E_REGISTRY  the prefix of the images' names; docker.io/ringmaster by default
//	E2E_TAG       the images' tag; dev by default
//	E2E_ON_NODE   set when the tests run in a node's network, so that they reach ClusterIPs too
//
// Each test has a namespace of its own, and removes it. A failed test prints the pods, events and logs of its
// namespace.
//
// The build tag e2e excludes the tests from 'go test ./...', because they need root or a cluster.
package e2e
