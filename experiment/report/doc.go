// Package report writes the results of an experiment, for people and for programs.
//
// It promises that every figure stands with its conditions: the verdicts, the validity of its run, the number of runs with their
// median and range, and the command that repeats it.
package report
