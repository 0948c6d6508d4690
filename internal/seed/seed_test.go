package seed_test

import (
	"testing"

	"github.com/ringmaster-project/ringmaster/internal/seed"
)

func TestChoicesDependOnSeedAndName(t *testing.T) {
	first := seed.New(1, "a").Uint64()
	if again := seed.New(1, "a").Uint64(); again != first {
		t.Errorf("the same seed and name led to %d and %d", first, again)
	}
	if other := seed.New(2, "a").Uint64(); other == first {
		t.Error("another seed led to the same choice")
	}
	if other := seed.New(1, "b").Uint64(); other == first {
		t.Error("another name led to the same choice")
	}
}

func TestSeedIsOneForTheRun(t *testing.T) {
	if first, second := seed.Run(t), seed.Run(t); first != second {
		t.Error("one test run has two seeds")
	}
	if first, second := seed.Rand(t).Uint64(), seed.Rand(t).Uint64(); first != second {
		t.Error("one test makes different choices with one seed")
	}
}
