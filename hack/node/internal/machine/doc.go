// Package machine is about the computer that a node runs on: what it must have, what is installed
// on it, and that nothing of a node is left on it.
package machine
