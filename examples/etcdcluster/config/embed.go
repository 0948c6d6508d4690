// Package config has the manifests of the multi-region sample, by folder. Manifests that belong to no region, such as the roles,
// have no namespace.
package config

import "embed"

// Files are the manifests, for programs that apply them without kustomize.
//
//go:embed crds rbac samples
var Files embed.FS
