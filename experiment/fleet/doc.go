// Package fleet runs the system that an experiment measures: instances of the sample operator in one of the setups, with or without an
// external sharder, on a cluster.
//
// It promises that each process has a ServiceAccount of its own with the roles of config/ and of the example, and nothing
// else, and that no process is left behind.
package fleet
