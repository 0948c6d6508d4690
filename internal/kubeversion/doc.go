// Package kubeversion refuses API servers that are older than Ringmaster supports. It promises that a
// process ends with an error that names both versions instead of working on guarantees that the API
// server does not give, and that an API server that cannot be reached changes nothing.
package kubeversion
