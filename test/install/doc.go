// Package install tests the manifests in config/ on a real API server: they are valid, they grant the
// sharder exactly the permissions that it needs, and the alerts use existing metrics.
package install
