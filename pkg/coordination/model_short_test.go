//go:build !long && !race

package coordination

// modelStates is the number of states of a scenario that are explored, those with the fewest faults first. It takes seconds.
const modelStates = 3000
