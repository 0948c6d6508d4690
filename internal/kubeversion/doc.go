// Package kubeversion refuses API servers that are too old for Ringmaster.
//
// It guarantees that a process ends with an error that names both versions, instead of relying on
// guarantees that the API server does not have. An API server that is unreachable does not end the
// process.
package kubeversion
