package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ringmaster-project/ringmaster/experiment/history"
	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
)

// histogram returns a histogram in Prometheus' text format: the number of durations up to each limit in seconds.
func histogram(name, labels string, upTo map[string]int) string {
	var b strings.Builder
	for le, n := range upTo {
		fmt.Fprintf(&b, "%s_bucket{%sle=%q} %d\n", name, labels, le, n)
	}
	return b.String()
}

// fixture returns a run with an empty store.
func fixture(t *testing.T) *run {
	t.Helper()
	store, err := measure.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &run{store: store, begin: time.Now().Add(-time.Hour).Truncate(time.Second), load: load.New(load.Options{})}
}

func (r *run) add(t *testing.T, process string, after time.Duration, text string) {
	t.Helper()
	batch := r.store.Batch(t.Context(), process, r.begin.Add(after))
	batch.Parse([]byte(text), "")
	if err := batch.Commit(); err != nil {
		t.Fatal(err)
	}
}

const queue = "workqueue_queue_duration_seconds"

func TestJudge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fast, slow, slower int // the number of durations up to 0.1 s, up to 10 s, and longer
		holds, known       bool
	}{
		"no durations":                    {0, 0, 0, false, false},
		"all are fast":                    {1000, 0, 0, true, true},
		"one of 1000 is slow":             {999, 1, 0, true, true},
		"two of 100 are slow":             {980, 20, 0, false, true},
		"all are slow":                    {0, 10, 0, false, true},
		"two of 100 exceed all buckets":   {980, 0, 20, false, true},
		"one of 1000 exceeds all buckets": {999, 0, 1, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := fixture(t)
			const labels = `name="website",`
			r.add(t, "a", 0, histogram(queue, labels, map[string]int{"0.1": 7, "1": 7, "10": 7, "+Inf": 7}))
			r.add(t, "a", time.Minute, histogram(queue, labels, map[string]int{
				"0.1": 7 + test.fast, "1": 7 + test.fast, "10": 7 + test.fast + test.slow, "+Inf": 7 + test.fast + test.slow + test.slower,
			}))
			// Other controllers of the operator do not count.
			r.add(t, "a", time.Minute, histogram(queue, `name="theme",`, map[string]int{"0.1": 0, "1": 0, "10": 500, "+Inf": 500}))
			got, err := judge(t.Context(), r.store, Objectives()[0], time.Minute+time.Second, r.begin.Add(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if got.Holds != test.holds || (got.Value != nil) != test.known {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestClimbFindsCapacity(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.Interval = 5 * time.Second
	var failing time.Time
	ended := false
	const interval = 5 * time.Second
	for i := range 120 {
		after := time.Duration(i) * interval
		slow := max(0, i-64) * 10 // from 320 s on, ten each time
		if i >= 30 {
			slow += 30 // at 150 s, for a moment
		}
		r.add(t, "a", after, histogram(queue, `name="website",`, map[string]int{"0.1": 100 * i, "1": 100 * i, "10": 100*i + slow, "+Inf": 100*i + slow}))
		fast := map[string]int{"0.1": i, "+Inf": i}
		r.add(t, "others", after, histogram(load.ReadyTime, "", fast))
		for _, verb := range []string{"POST", "LIST"} {
			r.add(t, "others", after, histogram("apiserver_request_duration_seconds", fmt.Sprintf("verb=%q,", verb), fast))
		}
		r.add(t, load.Process, after, fmt.Sprintf("%s %d\n%s{do=\"change\"} %d\n", load.Objects, 10*i, load.OperationsTotal, 50*i))
		r.add(t, Machine, after, fmt.Sprintf("%s %d\nexperiment_cpus 2\n", measure.CPU, 8*i)) // of 10 s
		if failing = r.updateCapacity(t.Context(), r.begin.Add(after), failing); !failing.IsZero() && after-failing.Sub(r.begin) >= limitConfirmed {
			ended = true
			break
		}
	}
	if !ended {
		t.Fatal("the ramp does not end")
	}
	if c := r.capacity; c == nil || c.Objects < 640 || c.Objects > 680 || c.Changes < 9 || c.Changes > 11 || c.Busy < 0.79 || c.Busy > 0.81 || !strings.HasPrefix(c.Limit, "queue") {
		t.Errorf("%+v", r.capacity)
	}
}

// Counters start at the first sample of the run.
func TestOperationsBeforeBeginDoNotCount(t *testing.T) {
	t.Parallel()
	for _, lasts := range []time.Duration{time.Minute, time.Minute + 400*time.Millisecond, time.Minute + 600*time.Millisecond} {
		r := fixture(t)
		r.end = r.begin.Add(lasts)
		r.add(t, load.Process, -time.Minute, load.RetriesTotal+" 0\n")
		for _, then := range []struct {
			after time.Duration
			done  int
		}{{-200 * time.Millisecond, 30}, {0, 40}, {lasts, 100}} {
			r.add(t, load.Process, then.after, fmt.Sprintf("%s{outcome=\"done\"} %d\n", load.OperationsTotal, then.done))
		}
		result := &Result{}
		if err := r.summarizeGenerator(t.Context(), result); err != nil {
			t.Fatal(err)
		}
		if done := result.Generator.Done; done < 59 || done > 61 {
			t.Errorf("%s: got %f operations, want 60", lasts, done)
		}
	}
}

// The usage of a process does not depend on how often it was sampled, nor on how long it existed.
func TestUsageDoesNotDependOnSampling(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.end = r.begin.Add(2 * time.Minute)
	add := func(process string, cores float64, from time.Duration, afters ...time.Duration) {
		for _, after := range afters {
			batch := r.store.Batch(t.Context(), process, r.begin.Add(from+after))
			batch.Add(measure.CPU, cores*after.Seconds())
			batch.Add(measure.Seen, (from + after).Seconds())
			batch.Add(measure.Resident, 1<<20)
			if err := batch.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("often", 1, 0, 0, 10*time.Second, 20*time.Second, 40*time.Second, 60*time.Second, 80*time.Second, 100*time.Second, 2*time.Minute)
	add("seldom", 1, 0, 0, 90*time.Second, 2*time.Minute)
	add("late", 1, time.Minute, 0, 20*time.Second, 40*time.Second, time.Minute)
	add("once", 1, time.Minute, 0)
	result := &Result{}
	if err := r.summarizeProcesses(t.Context(), result); err != nil {
		t.Fatal(err)
	}
	for _, f := range result.Processes {
		if f.Name == "once" {
			if f.CPU != 0 {
				t.Errorf("one sample shows no usage: %+v", f)
			}
		} else if f.CPU < 0.95 || f.CPU > 1.1 {
			t.Errorf("%s: got %f cores, want 1", f.Name, f.CPU)
		}
	}
	if len(result.Processes) != 4 {
		t.Errorf("%+v", result.Processes)
	}
}

// Two instances that did not exist at the same time together use what one does.
func TestUsageOfAllInstances(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.end = r.begin.Add(2 * time.Minute)
	lifetimes := map[string][2]time.Duration{Machine: {0, 2 * time.Minute}, "webhosting-operator-0": {0, time.Minute}, "webhosting-operator-1": {70 * time.Second, 2 * time.Minute}, "sharder": {0, 2 * time.Minute}}
	for after := time.Duration(0); after <= 2*time.Minute; after += 10 * time.Second {
		for process, when := range lifetimes {
			if after < when[0] || after > when[1] {
				continue
			}
			batch := r.store.Batch(t.Context(), process, r.begin.Add(after))
			batch.Add(measure.CPU, (after - when[0]).Seconds())
			batch.Add(measure.Resident, 1<<20)
			if err := batch.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	result := &Result{}
	if err := r.summarizeTogether(t.Context(), result); err != nil {
		t.Fatal(err)
	}
	if got := result.Together; got.CPU < 0.85 || got.CPU > 1.05 || got.Resident != 1<<20 {
		t.Errorf("%+v", got)
	}
}

func TestFailed(t *testing.T) {
	t.Parallel()
	slow := []Verdict{{Holds: true}, {Holds: false}}
	for name, test := range map[string]struct {
		result Result
		failed bool
	}{
		"all holds":                      {Result{Verdicts: []Verdict{{Holds: true}}}, false},
		"too slow":                       {Result{Verdicts: slow}, true},
		"too slow, at the end of a ramp": {Result{Verdicts: slow, Capacity: &Capacity{}}, false},
		"overlap":                        {Result{Overlaps: []string{"a"}}, true},
		"overlap in a ramp":              {Result{Overlaps: []string{"a"}, Capacity: &Capacity{}}, true},
		"an error":                       {Result{Errors: []string{"kill"}}, true},
		"a failed operation":             {Result{Generator: Generator{Failed: 1}, Capacity: &Capacity{}}, true},
	} {
		if got := test.result.Failed(); got != test.failed {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A frequent fast request must not hide a slow one.
func TestAPIServerIsJudgedBySlowestRequest(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	request := func(verb, resource string, fast, slow int) string {
		return histogram(requestDuration, fmt.Sprintf("verb=%q,group=\"\",resource=%q,subresource=\"\",", verb, resource),
			map[string]int{"0.1": fast, "1": fast, "2": fast + slow, "+Inf": fast + slow})
	}
	empty := request("PATCH", "websites", 0, 0) + request("PUT", "leases", 0, 0) + request("DELETE", "namespaces", 0, 0)
	r.add(t, apiServer, 0, empty)
	r.add(t, apiServer, time.Minute, request("PATCH", "websites", 0, 100)+request("PUT", "leases", 100_000, 0)+request("DELETE", "namespaces", 0, 3))
	end := r.begin.Add(time.Minute)
	got, err := judge(t.Context(), r.store, Objectives()[2], time.Minute+time.Second, end)
	if err != nil {
		t.Fatal(err)
	}
	if got.Holds || got.Value == nil || *got.Value <= 1 || got.Request != "PATCH websites" {
		t.Errorf("got %+v, want PATCH websites to miss the objective", got)
	}
	if reads, err := judge(t.Context(), r.store, Objectives()[3], time.Minute, end); err != nil || reads.Value != nil || reads.Holds {
		t.Errorf("got %+v, %v for reads, which were not measured", reads, err)
	}
	r.end = end
	result := &Result{}
	if err := r.summarizeLatencies(t.Context(), result); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, latency := range result.APILatencies {
		names = append(names, latency.Name)
	}
	slices.Sort(names)
	if want := []string{"DELETE namespaces", "PATCH websites", "PUT leases"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestSummarizeHistogram(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for name, test := range map[string]struct {
		buckets []bucket
		want    Latency
	}{
		"interpolated":     {[]bucket{{1, 50}, {2, 100}, {4, 100}, {inf, 100}}, Latency{Count: 100, P50: 1, P99: 1.98, Max: 2}},
		"without a limit":  {[]bucket{{1, 50}, {2, 90}, {inf, 100}}, Latency{Count: 100, P50: 1, P99: 2, Max: 2, Open: true}},
		"extrapolated":     {[]bucket{{1, 99.8}, {2, 100.1}, {inf, 100.1}}, Latency{Count: 100, P50: 0.50150, P99: 0.99297, Max: 1}},
		"unsorted buckets": {[]bucket{{inf, 10}, {1, 10}, {0.5, 0}}, Latency{Count: 10, P50: 0.75, P99: 0.995, Max: 1}},
	} {
		got, known := summarize(test.buckets)
		if diff := cmp.Diff(test.want, got, cmpopts.EquateApprox(0, 0.001)); diff != "" || !known {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, known := summarize([]bucket{{1, 0.1}, {inf, 0.1}}); known {
		t.Error("a histogram without durations has a latency")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		generator Generator
		capacity  *Capacity
		restarts  bool
		want      string // a part of the only reason; none if it is empty
	}{
		"nothing planned":            {Generator{}, nil, false, ""},
		"all done in time":           {Generator{Planned: 100, Done: 99, Late: 0.4, Busy: 0.89}, nil, false, ""},
		"some failed":                {Generator{Planned: 1000, Done: 900, Failed: 100}, nil, false, ""},
		"late":                       {Generator{Planned: 100, Done: 100, Late: 0.6}, nil, false, "started 600ms after they were due (--max-lateness 500ms)"},
		"late because of a restart":  {Generator{Planned: 100, Done: 100, Late: 4}, nil, true, ""},
		"unfinished":                 {Generator{Planned: 10_000, Done: 9800}, nil, false, "200 of 10000 operations did not end (--max-unfinished 0.01)"},
		"unfinished despite restart": {Generator{Planned: 100, Done: 80}, nil, true, "20 of 100 operations did not end"},
		"saturated":                  {Generator{Busy: 0.95}, nil, false, "the machine was saturated: 95% of its CPU time was in use (--max-cpu 0.9)"},
		"other processes":            {Generator{Busy: 0.8, Others: 0.5}, nil, false, "other processes used 50% of the machine's CPU time (--max-other-cpu 0.2)"},
		"a ramp":                     {Generator{Busy: 0.5, BusyPeak: 0.95}, &Capacity{Busy: 0.85}, false, ""},
		"a ramp that saturates":      {Generator{Busy: 0.5, BusyPeak: 0.95}, &Capacity{Busy: 0.92}, false, "92% of its CPU time was in use at the capacity (--max-cpu 0.9)"},
	} {
		got := DefaultLimits().check(test.generator, test.capacity, test.restarts)
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	unlimited := DefaultLimits()
	unlimited.CPU, unlimited.Others = 1, 1
	if got := unlimited.check(Generator{Busy: 1.02, Others: 1.01}, nil, false); len(got) > 0 {
		t.Errorf("--max-cpu 1 disables the limit: got %q", got)
	}
}

func TestRecoveries(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	line := func(seconds int, message, instance, name string) history.Line {
		return history.Line{At: at(seconds), Message: message, Instance: instance, Namespace: "n", Name: name}
	}
	const begins, ends = "Reconcile begins", "Reconcile ends"
	lines := []history.Line{
		line(1, begins, "a", "x"), line(2, ends, "a", "x"),
		line(26, begins, "b", "x"), line(27, ends, "b", "x"), line(28, begins, "b", "y"), line(30, ends, "b", "y"),
	}
	kills := []kill{{at(10), "a", []string{"n/x", "n/y", "n/lost", "n/deleted"}}, {at(11), "standby", []string{"n/x"}}}
	existing := []string{"n/x", "n/y", "n/lost"}
	want := []Recovery{{At: at(10), Instance: "a", Websites: 3, P50: 18.5, Max: 20, Missing: 1}}
	if diff := cmp.Diff(want, recoveries(lines, kills, existing, false)); diff != "" {
		t.Errorf("with a leader: %s", diff)
	}
	if got := recoveries(lines, kills, existing, true); len(got) != 2 || got[1].Max != 16 {
		t.Errorf("with shard labels both instances have owned Websites: got %+v", got)
	}
}

func TestClimbWithoutMeasurementsFindsNoCapacity(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	if failing := r.updateCapacity(t.Context(), r.begin.Add(2*time.Minute), time.Time{}); failing.IsZero() || r.capacity != nil {
		t.Errorf("%s, %+v", failing, r.capacity)
	}
}

func TestJudgeReturnsErrors(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.add(t, "a", 0, histogram(queue, `name="website",`, map[string]int{"+Inf": 1}))
	if _, err := judge(ctx, r.store, Objectives()[0], time.Minute, r.begin); err == nil || !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "cancel") {
		t.Errorf("%v", err)
	}
}
