package measure

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// fixture is a book with a beginning.
func open(t *testing.T) (*Book, time.Time) {
	t.Helper()
	b, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, time.Now().Add(-time.Hour).Truncate(time.Second)
}

func note(t *testing.T, b *Book, process string, at time.Time, text string, prefixes ...string) {
	t.Helper()
	s := b.Begin(t.Context(), process, at)
	s.Read([]byte(text), prefixes...)
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, b *Book, question string, at time.Time) float64 {
	t.Helper()
	value, known, err := b.One(t.Context(), question, at)
	if err != nil || !known {
		t.Fatal(question, known, err)
	}
	return value
}

func TestBook(t *testing.T) {
	t.Parallel()
	b, begin := open(t)
	const times = 12
	for i := range times + 1 {
		at := begin.Add(time.Duration(i) * 5 * time.Second)
		// It is started again in the middle, and counts from zero.
		count := 10 * i
		if i > times/2 {
			count = 10 * (i - times/2)
		}
		note(t, b, "a", at, fmt.Sprintf(`# TYPE reconciles_total counter
reconciles_total{controller="website"} %d
other_total 7
latency_seconds_bucket{le="0.1"} %d
latency_seconds_bucket{le="1"} %d
latency_seconds_bucket{le="+Inf"} %d
latency_seconds_sum 1
latency_seconds_count %d
`, count, 90*i, 100*i, 100*i, 100*i), "reconciles_total", "latency_seconds")
		s := b.Begin(t.Context(), "b", at)
		s.Add("process_cpu_seconds_total", float64(i))
		if err := s.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	end := begin.Add(times * 5 * time.Second)
	if got := ask(t, b, `sum(increase(reconciles_total{process="a"}[1m]))`, end); math.Abs(got-120) > 12 {
		t.Errorf("%f reconciles instead of 120", got)
	}
	if got := ask(t, b, `histogram_quantile(0.95, sum by (le) (increase(latency_seconds_bucket[1m])))`, end); math.Abs(got-0.55) > 0.01 {
		t.Errorf("the 95th is %f", got)
	}
	if got := ask(t, b, `rate(process_cpu_seconds_total{process="b"}[1m])`, end); math.Abs(got-0.2) > 0.01 {
		t.Errorf("%f of a core", got)
	}
	if found, err := b.At(t.Context(), "other_total", end); err != nil || len(found) > 0 {
		t.Error("it was not asked for", found, err)
	}
	lines, err := b.Over(t.Context(), `sum by (process) ({__name__=~"reconciles_total|process_cpu_seconds_total"})`, begin, end, 10*time.Second)
	if err != nil || len(lines) != 2 || len(lines[0].Points) != times/2+1 {
		t.Error(lines, err)
	}
	if _, _, err := b.One(t.Context(), "sum(", end); err == nil {
		t.Error("that was no question")
	}
}

// What a process says that makes no sense is not noted in part.
func TestBookRefuses(t *testing.T) {
	t.Parallel()
	b, begin := open(t)
	s := b.Begin(t.Context(), "a", begin)
	s.Read([]byte("first 1\nsecond {{{\n"), "")
	if err := s.Commit(); err == nil {
		t.Error("it was understood")
	}
	if found, err := b.At(t.Context(), "first", begin); err != nil || len(found) > 0 {
		t.Error(found, err)
	}
}

func TestWriteCSV(t *testing.T) {
	t.Parallel()
	b, begin := open(t)
	note(t, b, "a", begin, "requests_total{method=\"GET\",code=\"200\"} 3\nidle 1\nlatency_bucket{le=\"1\"} 2\n", "")
	note(t, b, "a", begin.Add(5*time.Second), "requests_total{method=\"GET\",code=\"200\"} 4.5\n", "")
	var out strings.Builder
	if err := b.WriteCSV(t.Context(), &out, begin, "latency"); err != nil {
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

// A process that comes later has counted from zero on.
func TestLate(t *testing.T) {
	t.Parallel()
	b, begin := open(t)
	note(t, b, "a", begin, "requests_total 100\n", "")
	note(t, b, "late", begin.Add(10*time.Second), "requests_total 50\ntemperature 7\n", "")
	for i := range 3 {
		note(t, b, "late", begin.Add(time.Duration(15+5*i)*time.Second), "requests_total 50\ntemperature 7\n", "")
		note(t, b, "a", begin.Add(time.Duration(15+5*i)*time.Second), "requests_total 100\n", "")
	}
	at := begin.Add(25 * time.Second)
	if got := ask(t, b, `sum(increase(requests_total{process="late"}[30s]))`, at); math.Abs(got-50) > 10 {
		t.Errorf("it has grown by %f", got)
	}
	if got := ask(t, b, `sum(increase(requests_total{process="a"}[30s]))`, at); got != 0 {
		t.Errorf("what was counted before the beginning counts: %f", got)
	}
	if got := ask(t, b, `min_over_time(temperature[30s])`, at); got != 7 {
		t.Errorf("it was %f once", got)
	}
}
