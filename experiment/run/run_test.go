package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
)

// observed is a histogram in Prometheus' format: how many took up to so many seconds.
func observed(name, labels string, upTo map[string]int) string {
	var b strings.Builder
	for le, n := range upTo {
		fmt.Fprintf(&b, "%s_bucket{%sle=%q} %d\n", name, labels, le, n)
	}
	return b.String()
}

// fixture is a run whose measurements are made up.
func fixture(t *testing.T) *run {
	t.Helper()
	book, err := measure.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := book.Close(); err != nil {
			t.Error(err)
		}
	})
	return &run{book: book, begin: time.Now().Add(-time.Hour).Truncate(time.Second), users: load.New(load.Options{})}
}

func (r *run) says(t *testing.T, process string, after time.Duration, text string) {
	t.Helper()
	samples := r.book.Begin(t.Context(), process, r.begin.Add(after))
	samples.Read([]byte(text), "")
	if err := samples.Commit(); err != nil {
		t.Fatal(err)
	}
}

const queue = "workqueue_queue_duration_seconds"

func TestJudge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fast, slow, lost int // how many took up to 0.1 s, up to 10 s, and longer than is counted
		holds, known     bool
	}{
		"nothing happened":     {0, 0, 0, false, false},
		"all are fast":         {1000, 0, 0, true, true},
		"one of 1000 is slow":  {999, 1, 0, true, true},
		"two of 100 are slow":  {980, 20, 0, false, true},
		"all are slow":         {0, 10, 0, false, true},
		"two of 100 are lost":  {980, 0, 20, false, true},
		"one of 1000 was lost": {999, 0, 1, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := fixture(t)
			const labels = `name="website",`
			r.says(t, "a", 0, observed(queue, labels, map[string]int{"0.1": 7, "1": 7, "10": 7, "+Inf": 7}))
			r.says(t, "a", time.Minute, observed(queue, labels, map[string]int{
				"0.1": 7 + test.fast, "1": 7 + test.fast, "10": 7 + test.fast + test.slow, "+Inf": 7 + test.fast + test.slow + test.lost,
			}))
			// What the operator does besides does not count.
			r.says(t, "a", time.Minute, observed(queue, `name="theme",`, map[string]int{"0.1": 0, "1": 0, "10": 500, "+Inf": 500}))
			got, err := judge(t.Context(), r.book, Objectives()[0], time.Minute+time.Second, r.begin.Add(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if got.Holds != test.holds || (got.Value != nil) != test.known {
				t.Errorf("%+v", got)
			}
		})
	}
}

// It climbs while all objectives hold, and tells the load until then.
func TestClimb(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.Interval = 5 * time.Second
	var bad time.Time
	ended := false
	const interval = 5 * time.Second
	for i := range 120 {
		after := time.Duration(i) * interval
		slow := max(0, i-64) * 10 // from 320 s on, ten each time
		if i >= 30 {
			slow += 30 // at 150 s, for a moment
		}
		r.says(t, "a", after, observed(queue, `name="website",`, map[string]int{"0.1": 100 * i, "1": 100 * i, "10": 100*i + slow, "+Inf": 100*i + slow}))
		fast := map[string]int{"0.1": i, "+Inf": i}
		r.says(t, "others", after, observed(load.ReadyTime, "", fast))
		for _, verb := range []string{"POST", "LIST"} {
			r.says(t, "others", after, observed("apiserver_request_duration_seconds", fmt.Sprintf("verb=%q,", verb), fast))
		}
		r.says(t, load.Process, after, fmt.Sprintf("%s %d\n%s{do=\"change\"} %d\n", load.Objects, 10*i, load.OperationsTotal, 50*i))
		if bad = r.climb(t.Context(), r.begin.Add(after), bad); !bad.IsZero() && after-bad.Sub(r.begin) >= enough {
			ended = true
			break
		}
	}
	if !ended {
		t.Fatal("it does not end")
	}
	if c := r.limit; c == nil || c.Objects < 640 || c.Objects > 680 || c.Changes < 9 || c.Changes > 11 || !strings.HasPrefix(c.GaveWay, "queue") {
		t.Errorf("%+v", r.limit)
	}
}

// What was noted at the very beginning is where all counts begin, and none of it counts.
func TestFromTheBeginning(t *testing.T) {
	t.Parallel()
	for _, lasts := range []time.Duration{time.Minute, time.Minute + 400*time.Millisecond, time.Minute + 600*time.Millisecond} {
		r := fixture(t)
		r.end = r.begin.Add(lasts)
		r.says(t, load.Process, -time.Minute, load.RetriesTotal+" 0\n")
		for _, then := range []struct {
			after time.Duration
			done  int
		}{{-200 * time.Millisecond, 30}, {0, 40}, {lasts, 100}} {
			r.says(t, load.Process, then.after, fmt.Sprintf("%s{outcome=\"done\"} %d\n", load.OperationsTotal, then.done))
		}
		result := &Result{}
		if err := r.judgeUsers(t.Context(), result); err != nil {
			t.Fatal(err)
		}
		if done := result.Generator.Done; done < 59 || done > 61 {
			t.Errorf("%s: %f were done", lasts, done)
		}
	}
}

// What a process needs each second does not depend on how often it was looked at: a machine that has much to do looks less often. Of
// one that was there for a part of the time it is what it needed then.
func TestPerSecond(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.end = r.begin.Add(2 * time.Minute)
	note := func(process string, cores float64, from time.Duration, afters ...time.Duration) {
		for _, after := range afters {
			samples := r.book.Begin(t.Context(), process, r.begin.Add(from+after))
			samples.Add(measure.CPU, cores*after.Seconds())
			samples.Add(measure.Seen, (from + after).Seconds())
			samples.Add(measure.Resident, 1<<20)
			if err := samples.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	note("often", 1, 0, 0, 10*time.Second, 20*time.Second, 40*time.Second, 60*time.Second, 80*time.Second, 100*time.Second, 2*time.Minute)
	note("seldom", 1, 0, 0, 90*time.Second, 2*time.Minute)
	note("late", 1, time.Minute, 0, 20*time.Second, 40*time.Second, time.Minute)
	note("once", 1, time.Minute, 0)
	result := &Result{}
	if err := r.sumUp(t.Context(), result); err != nil {
		t.Fatal(err)
	}
	for _, f := range result.Processes {
		if f.Name == "once" {
			if f.CPU != 0 {
				t.Errorf("it is not known what it needed: %+v", f)
			}
		} else if f.CPU < 0.95 || f.CPU > 1.1 {
			t.Errorf("%s needs %f cores", f.Name, f.CPU)
		}
	}
	if len(result.Processes) != 4 {
		t.Errorf("%+v", result.Processes)
	}
}

// What all instances need is what was needed at a time: not all of them were there at the same time.
func TestTogether(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.end = r.begin.Add(2 * time.Minute)
	there := map[string][2]time.Duration{Machine: {0, 2 * time.Minute}, "webhosting-operator-0": {0, time.Minute}, "webhosting-operator-1": {70 * time.Second, 2 * time.Minute}, "sharder": {0, 2 * time.Minute}}
	for after := time.Duration(0); after <= 2*time.Minute; after += 10 * time.Second {
		for process, when := range there {
			if after < when[0] || after > when[1] {
				continue
			}
			samples := r.book.Begin(t.Context(), process, r.begin.Add(after))
			samples.Add(measure.CPU, (after - when[0]).Seconds())
			samples.Add(measure.Resident, 1<<20)
			if err := samples.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	result := &Result{}
	if err := r.sumUpTogether(t.Context(), result); err != nil {
		t.Fatal(err)
	}
	if got := result.Together; got.CPU < 0.85 || got.CPU > 1.05 || got.Resident != 1<<20 {
		t.Errorf("%+v", got)
	}
}

// A run fails by what it has shown, and by what could not be done or measured.
func TestFailed(t *testing.T) {
	t.Parallel()
	slow := []Verdict{{Holds: true}, {Holds: false}}
	for name, test := range map[string]struct {
		result Result
		failed bool
	}{
		"all is well":              {Result{Verdicts: []Verdict{{Holds: true}}}, false},
		"too slow":                 {Result{Verdicts: slow}, true},
		"too slow, at the limit":   {Result{Verdicts: slow, Capacity: &Capacity{}}, false},
		"two at a time":            {Result{Doubles: []string{"a"}}, true},
		"two at a time, at limit":  {Result{Doubles: []string{"a"}, Capacity: &Capacity{}}, true},
		"nobody could be killed":   {Result{Troubles: []string{"kill"}}, true},
		"a user's request refused": {Result{Generator: Generator{Failed: 1}, Capacity: &Capacity{}}, true},
	} {
		if got := test.result.Failed(); got != test.failed {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestKept(t *testing.T) {
	t.Parallel()
	for want, all := range map[bool][]Generator{
		true:  {{}, {Planned: 100, Done: 99, Late: 0.5}},
		false: {{Planned: 10_000, Done: 9800}, {Planned: 100, Done: 80}, {Planned: 100, Done: 100, Late: 1.5}},
	} {
		for _, g := range all {
			if g.Kept() != want {
				t.Errorf("%+v", g)
			}
		}
	}
	if (Generator{Busy: 0.5}).Crowded() || !(Generator{Busy: 0.95}).Crowded() {
		t.Error("it does not see how busy the machine was")
	}
}

// Who measures nothing finds no capacity.
func TestClimbUnknown(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	if bad := r.climb(t.Context(), r.begin.Add(2*time.Minute), time.Time{}); bad.IsZero() || r.limit != nil {
		t.Errorf("%s, %+v", bad, r.limit)
	}
}

// A question that makes no sense is an error, and not a verdict.
func TestJudgeFails(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.says(t, "a", 0, observed(queue, `name="website",`, map[string]int{"+Inf": 1}))
	if _, err := judge(ctx, r.book, Objectives()[0], time.Minute, r.begin); err == nil || !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "cancel") {
		t.Errorf("%v", err)
	}
}
