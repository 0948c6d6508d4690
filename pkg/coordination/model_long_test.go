//go:build long

package coordination

// modelStates is how many states of a scenario are looked at, those with the fewest faults first. It takes minutes.
const modelStates = 20000
