// Package run runs a scenario in a setup, measures it, and judges it by its objectives.
//
// It promises a result for whatever has run, also when it was interrupted, and that a result says so when the machine, and
// not the system, was the limit.
package run
