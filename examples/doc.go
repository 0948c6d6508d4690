// Package examples has the tests of the examples, as their users run them: real binaries, manifests
// and roles, side by side in one ring.
package examples
