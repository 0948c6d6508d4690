// Package soak runs the sample operator with the external sharder under load for an hour or longer, while instances are rolled
// out, killed and paused, and looks for growth of heap, goroutines, watches, open files and requests. `make soak` runs it.
//
// It promises that a run is judged as a whole: by the oracle of test/robustness, and by comparing the beginning of the run
// with its end. The comparison is a pure function of the samples, and is tested with planted leaks. It is in the
// module of experiments because it uses their load.
package soak
