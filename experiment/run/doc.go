// Package run makes one run of an experiment: it starts a setup, generates the load of a scenario, measures all processes, and
// judges the result.
//
// It promises that an objective that was not measured is not reported as fulfilled, and that a run whose load generator fell behind, or whose
// machine was saturated, is reported as invalid with the reason.
package run
