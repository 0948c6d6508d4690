//go:build !long

package robustness_test

// sharderFaults are the parts of TestSharders. 'make test-long' has more.
var sharderFaults = map[string]func(*sharders, *scene){
	"Hung":       sharderHung,
	"WatchesLag": sharderWatchesLag,
}
