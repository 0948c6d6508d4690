// Package coordination shows people what the instances that manage a system together tell each other: who takes part,
// what is pending, who is ready, who acts, at which step, and what everything waits for.
//
// It promises that all of it was true at one revision of the store, and that it only looks.
package coordination
