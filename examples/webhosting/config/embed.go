// Package config has the manifests of the sample operator, for programs that apply them without
// kustomize. Each file is complete: it has namespaces and names, and only the mode has to be
// chosen.
package config

import "embed"

// Files are the manifests, including the kustomizations, which are not Kubernetes objects.
//
//go:embed crds rbac operator ring samples lead shard in-process
var Files embed.FS
