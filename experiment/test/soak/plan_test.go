package soak_test

import (
	"iter"
	"slices"
	"testing"

	"github.com/ringmaster-project/ringmaster/experiment/test/soak"
)

func first(n int, steps iter.Seq[soak.Step]) []soak.Step {
	var all []soak.Step
	for step := range steps {
		if all = append(all, step); len(all) == n {
			break
		}
	}
	return all
}

func TestSteps(t *testing.T) {
	t.Parallel()
	const victims, n = 2, 12
	one := first(n, soak.Steps(1, victims))
	if again := first(n, soak.Steps(1, victims)); !slices.Equal(one, again) {
		t.Errorf("the same seed leads to %v and %v", one, again)
	}
	if other := first(n, soak.Steps(2, victims)); slices.Equal(one, other) {
		t.Errorf("two seeds lead to %v", one)
	}
	for _, disturbance := range []soak.Disturbance{soak.Roll, soak.Kill, soak.Pause, soak.ShortPause} {
		if !slices.ContainsFunc(one[:4], func(s soak.Step) bool { return s.Disturbance == disturbance }) {
			t.Errorf("%s is missing in the first steps: %v", disturbance, one)
		}
	}
	for _, step := range one {
		if step.Victim < 0 || step.Victim >= victims || step.Rest <= 0 {
			t.Errorf("impossible step %+v", step)
		}
	}
}
