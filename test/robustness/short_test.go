//go:build !long

package robustness_test

// sharderFaults are the subtests of TestSharders. 'make test-long' has more.
var sharderFaults = map[string]func(*sharders, *scenario){
	"Hung":       sharderHung,
	"WatchesLag": sharderWatchesLag,
}
