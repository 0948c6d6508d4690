//go:build !long && race

package coordination

// modelStates is the number of states of a scenario that are explored, those with the fewest faults first. It is small, because the race detector makes everything ten times slower.
const modelStates = 300
