//go:build !long && !race

package coordination

// modelStates is how many states of a scenario are looked at, those with the fewest faults first. It takes seconds.
const modelStates = 3000
