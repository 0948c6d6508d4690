package soak

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/stats"
)

// Point is a value at a time: since the run began, or of a process's life.
type Point struct {
	At    time.Duration
	Value float64
}

// Limit is how much larger the last third may be than the first: a share of the first, plus a slack that allows small numbers to
// vary.
type Limit struct {
	Share, Slack float64
	// Over is the shortest third that is judged, for measures that depend on its disturbances.
	Over time.Duration
}

// Verdict is the result for a series of points.
type Verdict struct {
	// First and Last are the medians of the first and the last third of the time after the warm-up.
	First, Last float64
	// Judged is set if there were enough points, Grown if the limit is exceeded.
	Judged, Grown bool
}

// fewest is the number of points that a third must have: with fewer, one garbage collection would decide.
const fewest = 5

// Judge compares the medians of the first and the last third of the time after a warm-up. Medians, because collections,
// kills and resyncs make every series jump; thirds, because a leak grows all the time.
func Judge(points []Point, warmUp time.Duration, limit Limit) Verdict {
	points = slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return p.At < warmUp })
	if len(points) == 0 {
		return Verdict{}
	}
	slices.SortStableFunc(points, func(a, b Point) int { return int(a.At - b.At) })
	begin, end := points[0].At, points[len(points)-1].At
	third := (end - begin) / 3
	var first, last []float64
	for _, p := range points {
		if p.At <= begin+third {
			first = append(first, p.Value)
		}
		if p.At >= end-third {
			last = append(last, p.Value)
		}
	}
	v := Verdict{First: stats.Median(first), Last: stats.Median(last), Judged: third > 0 && third >= limit.Over && len(first) >= fewest && len(last) >= fewest}
	v.Grown = v.Judged && v.Last > v.First*(1+limit.Share)+limit.Slack
	return v
}

// Measure is something that must not grow.
type Measure struct {
	Name, Unit string
	Limit      Limit
	of         func(Sample) float64
}

// Measures returns the measures by which a process is judged.
func Measures() []Measure {
	const mebibyte = 1 << 20
	const allDisturbances = 4 * time.Minute // about one of each kind
	return []Measure{
		// Go lets the heap double between two collections, so medians of a small one differ by some MiB.
		{"heap in use", "MiB", Limit{Share: 0.20, Slack: 4}, func(s Sample) float64 { return s.Heap / mebibyte }},
		{"goroutines", "", Limit{Share: 0.10, Slack: 10}, func(s Sample) float64 { return s.Goroutines }},
		{"watches", "", Limit{Slack: 1}, func(s Sample) float64 { return s.Watches }},
		{"open files", "", Limit{Share: 0.10, Slack: 3}, func(s Sample) float64 { return s.Files }},
		// Moving the objects of an instance takes many times the requests of a minute without a disturbance.
		{"requests/min", "", Limit{Share: 0.25, Slack: 10, Over: allDisturbances}, func(s Sample) float64 { return s.Requests }},
	}
}

// Sample is a process at a time.
type Sample struct {
	// Process is its name. Long is set if it should run for the whole time.
	Process string
	Long    bool
	// At is the time since the run began, Age the time since the process started.
	At, Age time.Duration
	// Heap is in bytes, Requests in the last minute.
	Heap, Goroutines, Watches, Files, Requests float64
}

// Row is a line of the result.
type Row struct {
	Subject string
	Measure
	Verdict
}

// Warm-up: caches fill, the first Websites are created, connections are opened.
const (
	warmUp    = 2 * time.Minute
	warmUpAge = time.Minute
)

// Compare judges all processes. Each process that should run for the whole time is judged by itself. Those that restart are judged
// together, twice: by their age, which shows growth within a process, and by the time of the sample, which shows growth from one
// to the next. Requests are not judged by age, because they depend on the disturbances.
func Compare(samples []Sample) []Row {
	var subjects []string
	series := map[string][]Sample{}
	add := func(subject string, s Sample) {
		if series[subject] == nil {
			subjects = append(subjects, subject)
		}
		series[subject] = append(series[subject], s)
	}
	const byAge, byTime = "restarted instances, by age", "restarted instances, by time"
	for _, s := range samples {
		if s.Long {
			add(s.Process, s)
			continue
		}
		add(byAge, s)
		if s.Age >= warmUpAge {
			add(byTime, s)
		}
	}
	slices.SortStableFunc(subjects, func(a, b string) int { return rank(a, byAge, byTime) - rank(b, byAge, byTime) })
	var rows []Row
	for _, subject := range subjects {
		for _, m := range Measures() {
			if subject == byAge && m.Limit.Over > 0 {
				continue // few instances become old, and the disturbances around them decide
			}
			points := make([]Point, 0, len(series[subject]))
			for _, s := range series[subject] {
				at := s.At
				if subject == byAge {
					at = s.Age
				}
				points = append(points, Point{at, m.of(s)})
			}
			warm := warmUp
			if subject == byAge {
				warm = warmUpAge
			}
			rows = append(rows, Row{subject, m, Judge(points, warm, m.Limit)})
		}
	}
	return rows
}

// rank sorts the subjects of restarted instances behind the others.
func rank(subject string, behind ...string) int { return slices.Index(behind, subject) + 1 }

// Print writes the result as a table.
func Print(out io.Writer, rows []Row) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROCESS\tMEASURE\tFIRST THIRD\tLAST THIRD\tGROWTH\tLIMIT\tVERDICT")
	for _, r := range rows {
		verdict := "ok"
		switch {
		case !r.Judged:
			verdict = "too short to judge"
		case r.Grown:
			verdict = "GROWN"
		}
		fmt.Fprintf(table, "%s\t%s\t%.1f %s\t%.1f %s\t%+.1f\t%+.1f\t%s\n", r.Subject, r.Name, r.First, r.Unit, r.Last, r.Unit,
			r.Last-r.First, r.First*r.Limit.Share+r.Limit.Slack, verdict)
	}
	_ = table.Flush()
}
