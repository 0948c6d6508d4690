// Package config has the manifests of the multi-region sample, for programs that apply them without kustomize. What is
// of no region, as the roles, has no namespace in it: who applies it says which.
package config

import "embed"

// Files are the manifests, by the folders that docs and kubectl know them by. The kustomizations are among them, and
// are no objects.
//
//go:embed crds rbac samples
var Files embed.FS
