// Package config carries the manifests of this folder, so that a program can install what an
// administrator would.
package config

import "embed"

// Manifests are the definitions of our resources, the sharder's namespace, and what it may do.
//
//go:embed crds/*.yaml rbac/*.yaml sharder/namespace.yaml
var Manifests embed.FS
