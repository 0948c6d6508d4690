// Package scenario plans the load of an experiment, and the disturbances of the system meanwhile.
//
// It promises that a scenario and a seed always give the same list of operations, and that each operation is possible: a
// Website is changed or deleted only while it exists.
package scenario
