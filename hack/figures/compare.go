package main

import (
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/internal/stats"
)

// accepted is a ratio that must not get worse.
type accepted struct {
	// Benchmark is the name of the benchmark, Unit the unit that it reports, and Description the meaning of the ratio.
	Benchmark   string `json:"benchmark"`
	Unit        string `json:"unit"`
	Description string `json:"what,omitempty"`
	// Ratio is the accepted value. A value is worse if it exceeds Ratio by more than Tolerance, which is a share of Ratio.
	Ratio     float64 `json:"ratio"`
	Tolerance float64 `json:"tolerance"`
	// HigherIsBetter reverses the comparison.
	HigherIsBetter bool `json:"higherIsBetter,omitempty"`
	// Args are the sizes of the measurement, if they are not the defaults.
	Args string `json:"args,omitempty"`
	// Measured describes the machine and the number of runs.
	Measured string `json:"measured,omitempty"`
}

// id identifies a ratio.
type id struct{ benchmark, unit string }

func (a accepted) id() id { return id{a.Benchmark, a.Unit} }

// verdict is the result for a ratio.
type verdict string

const (
	worse   verdict = "WORSE"
	missing verdict = "MISSING"
	better  verdict = "better"
	same    verdict = "ok"
	unknown verdict = "not accepted yet"
	omitted verdict = "not measured"
)

// result is a ratio with its verdict.
type result struct {
	accepted
	// Value is the measured ratio, and Limit the worst one that is tolerated.
	Value, Limit float64
	verdict      verdict
}

// run is the output of benchmarks: all values of each ratio, and their arguments.
type run struct {
	values map[id][]float64
	args   string
}

// compare judges a run. A run without arguments must have all ratios. A run with other sizes than those of a ratio does not judge
// it.
func compare(all []accepted, measured run) []result {
	var results []result
	known := map[id]bool{}
	selected, sizes := split(measured.args)
	for _, a := range all {
		known[a.id()] = true
		r := result{accepted: a, Limit: a.Ratio * (1 + a.Tolerance), verdict: same}
		if a.HigherIsBetter {
			r.Limit = a.Ratio * (1 - a.Tolerance)
		}
		values := measured.values[a.id()]
		switch {
		case sizes != "" && sizes != a.Args, len(values) == 0 && selected:
			r.verdict = omitted
		case len(values) == 0:
			r.verdict = missing
		default:
			r.Value = stats.Median(values)
			r.verdict = a.judge(r.Value)
		}
		results = append(results, r)
	}
	for found, values := range measured.values {
		if !known[found] && isRatio(found.unit) {
			results = append(results, result{
				accepted: accepted{Benchmark: found.benchmark, Unit: found.unit, Args: sizes}, Value: stats.Median(values), verdict: unknown,
			})
		}
	}
	slices.SortStableFunc(results, func(a, b result) int {
		return strings.Compare(a.Benchmark+" "+a.Unit, b.Benchmark+" "+b.Unit)
	})
	return results
}

func (a accepted) judge(value float64) verdict {
	low, high := a.Ratio*(1-a.Tolerance), a.Ratio*(1+a.Tolerance)
	switch {
	case value > high && !a.HigherIsBetter, value < low && a.HigherIsBetter:
		return worse
	case value < low, value > high:
		return better
	}
	return same
}

// isRatio reports whether a unit is that of a ratio, and not of a time or a size. The share of renewals in time is a property of
// the machine, not of the product.
func isRatio(unit string) bool {
	if unit == "x-renewals" {
		return false
	}
	return strings.HasPrefix(unit, "x-") || slices.Contains([]string{"writes/object", "moves/object", "leases", "rig/envtest"}, unit)
}

// split separates the arguments of go test that select benchmarks from those that set sizes.
func split(args string) (selected bool, sizes string) {
	var rest []string
	fields := strings.Fields(args)
	for i := 0; i < len(fields); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(fields[i], "-"), "=")
		switch name {
		case "bench", "skip":
			selected = true
		case "benchtime", "count", "timeout", "cpuprofile", "memprofile", "profiles":
		case "v", "benchmem":
			continue
		default:
			rest = append(rest, fields[i])
			continue
		}
		if !hasValue {
			i++ // its value
		}
	}
	return selected, strings.Join(rest, " ")
}

// usualTolerance is the tolerance of a ratio that is accepted for the first time.
const usualTolerance = 0.25

// accept returns the list with the measured ratios.
func accept(all []accepted, measured run, machine string) []accepted {
	results := compare(all, measured)
	_, sizes := split(measured.args)
	next := make([]accepted, 0, len(results))
	for _, r := range results {
		a := r.accepted
		if r.verdict == unknown {
			a.Tolerance = usualTolerance
		}
		if r.verdict != omitted && r.verdict != missing {
			a.Ratio, a.Measured, a.Args = round(r.Value), machine, sizes
		}
		next = append(next, a)
	}
	return next
}

// round rounds to three decimal places: more are noise in a diff.
func round(value float64) float64 {
	const digits = 1000
	return float64(int64(value*digits+0.5)) / digits
}
