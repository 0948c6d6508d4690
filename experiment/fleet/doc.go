// Package fleet is what an experiment measures: the sample operator in several instances, in one of the setups that there are,
// with or without a sharder, on a cluster.
//
// It promises that each process has a ServiceAccount of its own with the roles of config/ and of the example, and nothing
// more, and that nothing of it is left behind.
package fleet
