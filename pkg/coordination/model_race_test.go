//go:build !long && race

package coordination

// modelStates is how many states of a scenario are looked at, those with the fewest faults first. It is few where everything takes ten times as long.
const modelStates = 300
