// Package e2e tests on a real cluster, with real nodes, pods and Services, what smaller tests can
// only pretend. 'make e2e' starts such a cluster on this machine; with KUBECONFIG set, the tests
// run on the cluster that it names, which then has to have our images:
//
//	KUBECONFIG    the cluster's kubeconfig
//	E2E_REGISTRY  what the images' names start with; docker.io/ringmaster by default
//	E2E_TAG       the images' tag; dev by default
//	E2E_ON_NODE   set when the tests run in a node's network, so that they reach ClusterIPs too
//
// Each test works in a namespace of its own and removes it. When it fails it prints what was in it.
//
// The build tag e2e keeps the tests out of 'go test ./...', because they need root or a cluster.
package e2e
