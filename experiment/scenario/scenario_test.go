package scenario

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Every operation is possible, the rates are as planned, and the same seed gives the same operations.
func TestPlanIsPossibleAndRepeatable(t *testing.T) {
	t.Parallel()
	for _, s := range All() {
		for _, scale := range []float64{0.05, 1} {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				s := s.Scaled(scale)
				const seed = 7
				alive, count := map[int]bool{}, map[Kind]int{}
				last := time.Duration(0)
				for op := range s.Plan(seed) {
					if op.At < last || op.At >= s.Duration {
						t.Fatalf("%+v comes after %s", op, last)
					}
					if last = op.At; alive[op.Object] == (op.Do == Create) {
						t.Fatalf("%+v, and the object exists: %t", op, alive[op.Object])
					}
					alive[op.Object] = op.Do != Delete
					count[op.Do]++
				}
				objects := 0
				for _, is := range alive {
					if is {
						objects++
					}
				}
				about(t, "objects", float64(objects), s.Load.Objects(s.Duration))
				about(t, "created", float64(count[Create]-s.Load.Initial), s.Load.Create*s.Duration.Seconds())
				about(t, "deleted", float64(count[Delete]), s.Load.Delete*s.Duration.Seconds())
				mean := (s.Load.Objects(0) + s.Load.Objects(s.Duration)) / 2
				about(t, "changed", float64(count[Change]), mean*s.Duration.Seconds()/s.Load.ChangeEvery.Seconds())
				if !slices.Equal(slices.Collect(s.Plan(seed)), slices.Collect(s.Plan(seed))) {
					t.Error("the same seed gave other operations")
				}
			})
		}
	}
}

// about allows for the ends of the time, and for chance.
func about(t *testing.T, name string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.1*want+10 {
		t.Errorf("%s: got %.0f, want %.0f", name, got, want)
	}
}

func TestParametersOfOriginalEvaluation(t *testing.T) {
	t.Parallel()
	basic, err := Find("basic")
	if err != nil {
		t.Fatal(err)
	}
	objects := basic.Load.Objects(basic.Duration)
	about(t, "objects", objects, 9000)
	about(t, "changes each second", basic.Load.Changes(objects), 160)
	for name, want := range map[string]Scenario{
		"basic":          {Duration: 15 * time.Minute, Load: Load{Create: 12, Delete: 2, ChangeEvery: time.Minute}, Instances: 3},
		"scale-out":      {Duration: 15 * time.Minute, Load: Load{Create: 10, ChangeEvery: 30 * time.Second}, Instances: 1, Workers: 5},
		"rolling-update": {Duration: 15 * time.Minute, Load: Load{Create: 12, Delete: 2, ChangeEvery: time.Minute}, Instances: 3},
		"chaos":          {Duration: 15 * time.Minute, Load: Load{Initial: 4500, ChangeEvery: time.Minute}, Instances: 3},
	} {
		got, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if got.Load != want.Load || got.Duration != want.Duration || got.Instances != want.Instances || got.Workers != want.Workers {
			t.Errorf("%s: %+v", name, got)
		}
		if name == "chaos" && cmp.Diff([]Event{{5 * time.Minute, Kill, -1}, {10 * time.Minute, Kill, -1}}, got.Events) != "" {
			t.Errorf("%v", got.Events)
		}
	}
}

func TestWithAndLastingAdaptEvents(t *testing.T) {
	t.Parallel()
	rebalance, err := Find("rebalance")
	if err != nil {
		t.Fatal(err)
	}
	got := rebalance.With(5).Lasting(5 * time.Minute).Events
	want := []Event{{time.Minute, Join, 5}, {2 * time.Minute, Join, 6}, {3 * time.Minute, Leave, 0}, {4 * time.Minute, Leave, 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if rebalance.Events[0].At != 2*time.Minute {
		t.Error("the original scenario was modified")
	}
}

func TestHoldingKeepsRateOfEvenScenarios(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]time.Duration{"size": 1000 * time.Second, "chaos": time.Minute} {
		s, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Holding(10_000).Load; got.Initial != 10_000 || got.ChangeEvery != every {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of    string
		by    func(Scenario) Scenario
		valid bool
	}{
		"original":        {"chaos", func(s Scenario) Scenario { return s }, true},
		"too short":       {"basic", func(s Scenario) Scenario { return s.Lasting(time.Millisecond) }, false},
		"no instances":    {"basic", func(s Scenario) Scenario { return s.With(0) }, false},
		"no objects":      {"chaos", func(s Scenario) Scenario { return s.Scaled(0) }, false},
		"all leave":       {"rebalance", func(s Scenario) Scenario { return s.With(2) }, false},
		"other instances": {"rolling-update", func(s Scenario) Scenario { return s.With(1) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Find(test.of)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.by(s).Validate(); (err == nil) != test.valid {
				t.Error(err)
			}
		})
	}
	for _, s := range All() {
		if err := s.Validate(); err != nil {
			t.Error(s.Name, err)
		}
	}
	if _, err := Find("basics"); err == nil {
		t.Error("an unknown scenario was found")
	}
}
