// Package install tests what is in config/: that a real API server takes it, that it allows what the
// sharder does and no more, and that the alerts are about metrics that exist.
package install
