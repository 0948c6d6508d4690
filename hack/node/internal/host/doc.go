// Package host checks and prepares the machine that a node runs on: what it must have, the packages
// that are installed on it, its cgroups, and that nothing of a node remains on it.
package host
