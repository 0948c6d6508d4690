package soak_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/test/soak"
)

const minute = time.Minute

// series is a value every 10 s for an hour.
func series(value func(at time.Duration) float64) []soak.Point {
	var points []soak.Point
	for at := time.Duration(0); at <= time.Hour; at += 10 * time.Second {
		points = append(points, soak.Point{At: at, Value: value(at)})
	}
	return points
}

// TestJudge finds leaks that are planted, and nothing else.
func TestJudge(t *testing.T) {
	t.Parallel()
	limit := soak.Limit{Share: 0.2, Slack: 4, Over: 4 * minute}
	random := rand.New(rand.NewPCG(1, 2)) // the same each time
	sawtooth := func(at time.Duration) float64 { return 20 + 20*math.Mod(at.Minutes(), 1.7)/1.7 }
	for name, test := range map[string]struct {
		points []soak.Point
		want   soak.Verdict // without the medians
	}{
		"constant":           {series(func(time.Duration) float64 { return 30 }), soak.Verdict{Judged: true}},
		"noise":              {series(func(time.Duration) float64 { return 30 + 20*random.Float64() }), soak.Verdict{Judged: true}},
		"sawtooth":           {series(sawtooth), soak.Verdict{Judged: true}},
		"warm-up":            {series(func(at time.Duration) float64 { return 30 * min(1, at.Minutes()/2) }), soak.Verdict{Judged: true}},
		"spikes":             {series(func(at time.Duration) float64 { return 30 + 500*math.Floor(math.Mod(at.Minutes(), 7)/6.5) }), soak.Verdict{Judged: true}},
		"shrinks":            {series(func(at time.Duration) float64 { return 60 - at.Minutes()/2 }), soak.Verdict{Judged: true}},
		"leak":               {series(func(at time.Duration) float64 { return 30 + at.Minutes()/3 }), soak.Verdict{Judged: true, Grown: true}},
		"leak in a sawtooth": {series(func(at time.Duration) float64 { return sawtooth(at) + at.Minutes()/2 }), soak.Verdict{Judged: true, Grown: true}},
		"leak in noise": {series(func(at time.Duration) float64 {
			return 30 + 20*random.Float64() + at.Minutes()/2
		}), soak.Verdict{Judged: true, Grown: true}},
		"step in the middle": {series(func(at time.Duration) float64 { return 30 + 20*math.Floor(at.Minutes()/31) }), soak.Verdict{Judged: true, Grown: true}},
		"few":                {series(func(at time.Duration) float64 { return at.Minutes() })[:20], soak.Verdict{}},
		"too short":          {series(func(at time.Duration) float64 { return at.Minutes() * 9 })[:80], soak.Verdict{}},
		"long enough":        {series(func(at time.Duration) float64 { return at.Minutes() * 9 })[:85], soak.Verdict{Judged: true, Grown: true}},
		"none":               {nil, soak.Verdict{}},
		"in any order":       {reversed(series(func(at time.Duration) float64 { return 30 + at.Minutes()/3 })), soak.Verdict{Judged: true, Grown: true}},
	} {
		got := soak.Judge(test.points, 2*minute, limit)
		if got.Judged != test.want.Judged || got.Grown != test.want.Grown {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func reversed(points []soak.Point) []soak.Point {
	var all []soak.Point
	for i := range points {
		all = append(all, points[len(points)-1-i])
	}
	return all
}

// TestCompare plants leaks in processes.
func TestCompare(t *testing.T) {
	t.Parallel()
	healthy := func(at, age time.Duration) soak.Sample {
		return soak.Sample{At: at, Age: age, Heap: 20 << 20, Goroutines: 100, Watches: 6, Files: 12, Requests: 90}
	}
	for name, test := range map[string]struct {
		change func(*soak.Sample)
		// grown are the subjects and measures that are found.
		grown []string
	}{
		"healthy": {change: func(*soak.Sample) {}},
		"the sharder leaks goroutines": {
			change: func(s *soak.Sample) {
				if s.Process == "sharder" {
					s.Goroutines += s.At.Minutes()
				}
			},
			grown: []string{"sharder goroutines"},
		},
		"a watch is opened again now and then": {
			change: func(s *soak.Sample) {
				if s.Process == "sharder" {
					s.Watches += math.Floor(s.At.Minutes() / 15)
				}
			},
			grown: []string{"sharder watches"},
		},
		"instances leak while they live": {
			change: func(s *soak.Sample) {
				if !s.Long {
					s.Heap += s.Age.Minutes() * (4 << 20)
				}
			},
			grown: []string{"restarted instances, by age heap in use"},
		},
		"each instance has more to do than the one before": {
			change: func(s *soak.Sample) {
				if !s.Long {
					s.Requests += s.At.Minutes() * 2
				}
			},
			grown: []string{"restarted instances, by time requests/min"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var samples []soak.Sample
			add := func(s soak.Sample, process string, long bool) {
				s.Process, s.Long = process, long
				test.change(&s)
				samples = append(samples, s)
			}
			const life = 5 * time.Minute
			for at := time.Duration(0); at < time.Hour; at += 10 * time.Second {
				add(healthy(at, at), "sharder", true)
				add(healthy(at, at%life), "instance", false)
			}
			rows := soak.Compare(samples)
			var grown []string
			for _, r := range rows {
				if !r.Judged {
					t.Errorf("%s %s was not judged", r.Subject, r.Name)
				}
				if r.Grown {
					grown = append(grown, r.Subject+" "+r.Name)
				}
			}
			if strings.Join(grown, "; ") != strings.Join(test.grown, "; ") {
				t.Errorf("grown: %q, want %q", grown, test.grown)
			}
			var table strings.Builder
			soak.Print(&table, rows)
			if got := strings.Count(table.String(), "GROWN"); got != len(test.grown) {
				t.Errorf("the table reports growth %d times:\n%s", got, &table)
			}
		})
	}
}
