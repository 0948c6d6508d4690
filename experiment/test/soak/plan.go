package soak

import (
	"iter"
	"math/rand/v2"
	"time"
)

// Disturbance is something that happens to instances.
type Disturbance string

const (
	// Roll replaces the instances one after the other.
	Roll Disturbance = "rollout"
	// Kill kills an instance, which is replaced.
	Kill Disturbance = "kill"
	// Pause stops an instance for longer than its Lease lasts. It exits when it is resumed, and is replaced.
	Pause Disturbance = "pause beyond the lease"
	// ShortPause stops an instance for less than that. It continues.
	ShortPause Disturbance = "short pause"
)

// Step is one disturbance.
type Step struct {
	Disturbance Disturbance
	// Victim is the number of the instance among those that may be disturbed.
	Victim int
	// Rest is the time without disturbances afterwards.
	Rest time.Duration
}

// Steps are disturbances without end, always the same for a seed.
func Steps(seed uint64, victims int) iter.Seq[Step] {
	const restAtLeast, restAtMost = 20 * time.Second, 60 * time.Second
	return func(yield func(Step) bool) {
		random := rand.New(rand.NewPCG(seed, 3))
		all := []Disturbance{Roll, Kill, Pause, ShortPause}
		for {
			// All of them in a random order, so that a short run has them all.
			for _, i := range random.Perm(len(all)) {
				step := Step{Disturbance: all[i], Victim: random.IntN(victims), Rest: restAtLeast + time.Duration(random.Int64N(int64(restAtMost-restAtLeast)))}
				if !yield(step) {
					return
				}
			}
		}
	}
}
