package seed_test

import (
	"testing"

	"github.com/ringmaster-project/ringmaster/internal/seed"
)

func TestChoicesDependOnSeedAndName(t *testing.T) {
	first := seed.New(1, "a").Uint64()
	if second := seed.New(1, "a").Uint64(); second != first {
		t.Errorf("got %d and %d with the same seed and name", first, second)
	}
	if other := seed.New(2, "a").Uint64(); other == first {
		t.Error("got the same number with another seed")
	}
	if other := seed.New(1, "b").Uint64(); other == first {
		t.Error("got the same number with another name")
	}
}

func TestSeedDoesNotChangeDuringRun(t *testing.T) {
	if first, second := seed.ForRun(t), seed.ForRun(t); first != second {
		t.Error("a test run has two seeds")
	}
	if first, second := seed.Rand(t).Uint64(), seed.Rand(t).Uint64(); first != second {
		t.Error("got different numbers in the same test")
	}
}
