package stats_test

import (
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/stats"
)

func TestSummarize(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values []float64
		want   stats.Spread
	}{
		"none": {nil, stats.Spread{}},
		"one":  {[]float64{4.9}, stats.Spread{Median: 4.9, Min: 4.9, Max: 4.9, Runs: 1}},
		"odd":  {[]float64{5, 4, 4.5}, stats.Spread{Median: 4.5, Min: 4, Max: 5, Runs: 3}},
		"even": {[]float64{1, 4, 2, 10}, stats.Spread{Median: 3, Min: 1, Max: 10, Runs: 4}},
	} {
		if got := stats.Summarize(test.values); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	durations := []time.Duration{3 * time.Second, time.Second, 2 * time.Second}
	if got := stats.Quantile(durations, 0.5); got != 2*time.Second {
		t.Errorf("p50: got %s", got)
	}
	if got := stats.Quantile(durations, 1); got != 3*time.Second {
		t.Errorf("maximum: got %s", got)
	}
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for share, want := range map[float64]int{0: 1, 0.07: 7, 0.5: 50, 0.99: 99, 0.995: 100, 1: 100} {
		if got := stats.Quantile(hundred, share); got != want {
			t.Errorf("%g of 1 to 100: got %d, want %d", share, got, want)
		}
	}
	if got := stats.Quantile(hundred[:10], 0.99); got != 10 {
		t.Errorf("p99 of 1 to 10: got %d, which 10%% of the values exceed", got)
	}
	if got := stats.Quantile[int](nil, 0.99); got != 0 {
		t.Errorf("none: got %d", got)
	}
}
