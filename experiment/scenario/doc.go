// Package scenario says what is done to a system in an experiment: how many objects come, change and go, and what else
// happens to it meanwhile. It decides and does nothing.
//
// It promises that the same scenario with the same seed is the same list of operations.
package scenario
