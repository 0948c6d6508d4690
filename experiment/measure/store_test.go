package measure

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// open returns an empty store, and a time to begin with.
func open(t *testing.T) (*Store, time.Time) {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, time.Now().Add(-time.Hour).Truncate(time.Second)
}

func add(t *testing.T, s *Store, process string, at time.Time, text string, prefixes ...string) {
	t.Helper()
	b := s.Batch(t.Context(), process, at)
	b.Parse([]byte(text), prefixes...)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

func query(t *testing.T, s *Store, text string, at time.Time) float64 {
	t.Helper()
	value, known, err := s.QueryOne(t.Context(), text, at)
	if err != nil || !known {
		t.Fatal(text, known, err)
	}
	return value
}

func TestQueries(t *testing.T) {
	t.Parallel()
	s, begin := open(t)
	const times = 12
	for i := range times + 1 {
		at := begin.Add(time.Duration(i) * 5 * time.Second)
		// The process restarts in the middle, and counts from zero.
		count := 10 * i
		if i > times/2 {
			count = 10 * (i - times/2)
		}
		add(t, s, "a", at, fmt.Sprintf(`# TYPE reconciles_total counter
reconciles_total{controller="website"} %d
other_total 7
latency_seconds_bucket{le="0.1"} %d
latency_seconds_bucket{le="1"} %d
latency_seconds_bucket{le="+Inf"} %d
latency_seconds_sum 1
latency_seconds_count %d
`, count, 90*i, 100*i, 100*i, 100*i), "reconciles_total", "latency_seconds")
		b := s.Batch(t.Context(), "b", at)
		b.Add("process_cpu_seconds_total", float64(i))
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	end := begin.Add(times * 5 * time.Second)
	if got := query(t, s, `sum(increase(reconciles_total{process="a"}[1m]))`, end); math.Abs(got-120) > 12 {
		t.Errorf("got %f reconciles, want 120", got)
	}
	if got := query(t, s, `histogram_quantile(0.95, sum by (le) (increase(latency_seconds_bucket[1m])))`, end); math.Abs(got-0.55) > 0.01 {
		t.Errorf("p95: got %f", got)
	}
	if got := query(t, s, `rate(process_cpu_seconds_total{process="b"}[1m])`, end); math.Abs(got-0.2) > 0.01 {
		t.Errorf("CPU: got %f cores", got)
	}
	if found, err := s.Query(t.Context(), "other_total", end); err != nil || len(found) > 0 {
		t.Error("a series without a wanted prefix was stored:", found, err)
	}
	lines, err := s.QueryRange(t.Context(), `sum by (process) ({__name__=~"reconciles_total|process_cpu_seconds_total"})`, begin, end, 10*time.Second)
	if err != nil || len(lines) != 2 || len(lines[0].Points) != times/2+1 {
		t.Error(lines, err)
	}
	if _, _, err := s.QueryOne(t.Context(), "sum(", end); err == nil {
		t.Error("an invalid query succeeded")
	}
}

func TestInvalidMetricsAreNotStoredInPart(t *testing.T) {
	t.Parallel()
	s, begin := open(t)
	b := s.Batch(t.Context(), "a", begin)
	b.Parse([]byte("first 1\nsecond {{{\n"), "")
	if err := b.Commit(); err == nil {
		t.Error("invalid metrics were stored")
	}
	if found, err := s.Query(t.Context(), "first", begin); err != nil || len(found) > 0 {
		t.Error(found, err)
	}
}

func TestWriteCSV(t *testing.T) {
	t.Parallel()
	s, begin := open(t)
	add(t, s, "a", begin, "requests_total{method=\"GET\",code=\"200\"} 3\nidle 1\nlatency_bucket{le=\"1\"} 2\n", "")
	add(t, s, "a", begin.Add(5*time.Second), "requests_total{method=\"GET\",code=\"200\"} 4.5\n", "")
	var out strings.Builder
	if err := s.WriteCSV(t.Context(), &out, begin, "latency"); err != nil {
		t.Fatal(err)
	}
	want := `process,series,seconds,value
a,idle,0.0,1
a,"requests_total{code=""200"",method=""GET""}",0.0,3
a,"requests_total{code=""200"",method=""GET""}",5.0,4.5
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestCounterOfLaterProcessStartsAtZero(t *testing.T) {
	t.Parallel()
	s, begin := open(t)
	add(t, s, "a", begin, "requests_total 100\n", "")
	add(t, s, "late", begin.Add(10*time.Second), "requests_total 50\ntemperature 7\n", "")
	for i := range 3 {
		add(t, s, "late", begin.Add(time.Duration(15+5*i)*time.Second), "requests_total 50\ntemperature 7\n", "")
		add(t, s, "a", begin.Add(time.Duration(15+5*i)*time.Second), "requests_total 100\n", "")
	}
	at := begin.Add(25 * time.Second)
	if got := query(t, s, `sum(increase(requests_total{process="late"}[30s]))`, at); math.Abs(got-50) > 10 {
		t.Errorf("increase of the later process: got %f, want 50", got)
	}
	if got := query(t, s, `sum(increase(requests_total{process="a"}[30s]))`, at); got != 0 {
		t.Errorf("increase of the first process: got %f, want 0", got)
	}
	if got := query(t, s, `min_over_time(temperature[30s])`, at); got != 7 {
		t.Errorf("a gauge got an initial value: %f", got)
	}
}
