//go:build long

package coordination

// modelStates is the number of states of a scenario that are explored, those with the fewest faults first. It takes minutes.
const modelStates = 20000
