// Package config has the manifests of the sample operator, for programs that apply them without
// kustomize. It promises that each file is complete: namespaces and names are in it, and only the mode is
// left to be chosen.
package config

import "embed"

// Files are the manifests, by the folders that docs and kubectl know them by. The kustomizations are
// among them, and are no objects.
//
//go:embed crds rbac operator ring samples lead shard in-process
var Files embed.FS
