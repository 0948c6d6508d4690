package main

import (
	"slices"
	"strings"
)

// accepted is a ratio that must not get worse.
type accepted struct {
	// Benchmark and Unit are what the benchmark is called and reports, What says it in words.
	Benchmark string `json:"benchmark"`
	Unit      string `json:"unit"`
	What      string `json:"what,omitempty"`
	// Ratio is what was accepted. It gets worse when it exceeds it by more than the tolerance, which is a share of it.
	Ratio     float64 `json:"ratio"`
	Tolerance float64 `json:"tolerance"`
	// HigherIsBetter turns that around.
	HigherIsBetter bool `json:"higherIsBetter,omitempty"`
	// Args are the sizes that it was measured with, if those are not the defaults.
	Args string `json:"args,omitempty"`
	// Measured says on what, and how often.
	Measured string `json:"measured,omitempty"`
}

// id names a ratio.
type id struct{ benchmark, unit string }

func (a accepted) id() id { return id{a.Benchmark, a.Unit} }

// verdict is what became of a ratio.
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
	// Value is what was measured now, and Limit the worst that is tolerated.
	Value, Limit float64
	verdict      verdict
}

// run is what benchmarks reported: all values of each ratio, and the arguments that they were given.
type run struct {
	values map[id][]float64
	args   string
}

// compare judges a run. One without arguments of its own has to have all ratios; one with other sizes than a ratio was
// accepted with says nothing about it.
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
			r.Value = median(values)
			r.verdict = a.judge(r.Value)
		}
		results = append(results, r)
	}
	for found, values := range measured.values {
		if !known[found] && isRatio(found.unit) {
			results = append(results, result{
				accepted: accepted{Benchmark: found.benchmark, Unit: found.unit, Args: sizes}, Value: median(values), verdict: unknown,
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

// isRatio tells a ratio from a time or a size by its unit. The share of renewals that were in time is a property of the
// machine, not of the product.
func isRatio(unit string) bool {
	if unit == "x-renewals" {
		return false
	}
	return strings.HasPrefix(unit, "x-") || slices.Contains([]string{"writes/object", "moves/object", "leases", "rig/envtest"}, unit)
}

// split tells which arguments of go test choose benchmarks, and which are sizes of their own.
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

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// usualTolerance is that of a ratio that is accepted for the first time.
const usualTolerance = 0.25

// accept is the list with what was measured instead of what was accepted.
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

// round leaves three digits after the point: more is noise in a diff.
func round(value float64) float64 {
	const digits = 1000
	return float64(int64(value*digits+0.5)) / digits
}
