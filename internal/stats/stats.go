// Package stats summarises repeated measurements, for the benchmarks and the experiments.
//
// It promises that all published figures use the same definition of a median, a quantile and a range.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// Number is a type whose values can be summarised.
type Number interface {
	~int | ~int64 | ~float64
}

// Quantile returns the smallest value that at least a share of the values does not exceed, 0 if values is empty.
func Quantile[T cmp.Ordered](values []T, share float64) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	const imprecision = 1e-9 // 0.07*100 is more than 7
	rank := int(math.Ceil(share*float64(len(sorted)) - imprecision))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median returns the middle value, or the mean of the two middle ones, 0 if values is empty.
func Median[T Number](values []T) T {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Spread summarises the values of one figure in several runs.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`
}

// Summarize returns the median and the range of values.
func Summarize(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Median: Median(values), Min: slices.Min(values), Max: slices.Max(values), Runs: len(values)}
}
