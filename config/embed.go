// Package config embeds the manifests of this directory, so that programs can install them.
package config

import "embed"

// Manifests are the CRDs, and the sharder's namespace and RBAC.
//
//go:embed crds/*.yaml rbac/*.yaml sharder/namespace.yaml
var Manifests embed.FS
