package history

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestOverlaps(t *testing.T) {
	t.Parallel()
	line := func(message, instance string) Line { return Line{Message: message, Instance: instance} }
	for name, test := range map[string]struct {
		history []Line
		want    int
	}{
		"one after the other":       {[]Line{line(begins, "a"), line(ends, "a"), line(begins, "b"), line(ends, "b")}, 0},
		"at the same time":          {[]Line{line(begins, "a"), line(begins, "b"), line(ends, "a"), line(ends, "b")}, 1},
		"after an exit":             {[]Line{line(begins, "a"), line(exited, "a"), line(begins, "b"), line(ends, "b")}, 0},
		"before an exit":            {[]Line{line(begins, "a"), line(begins, "b"), line(exited, "a"), line(ends, "b")}, 1},
		"after the exit of another": {[]Line{line(begins, "a"), line(exited, "c"), line(begins, "b")}, 1},
		"a paused instance ends":    {[]Line{line(begins, "a"), line(exited, "a"), line(begins, "b"), line(ends, "a"), line(begins, "c")}, 1},
		"a paused instance goes on": {[]Line{line(exited, "a"), line(begins, "b"), line(begins, "a")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range test.history {
				test.history[i].At = time.Unix(int64(i), 0)
			}
			if found := Overlaps(test.history); len(found) != test.want {
				t.Errorf("got %q, want %d", found, test.want)
			}
		})
	}
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	line := func(seconds int, message, instance, name string) Line {
		return Line{At: at(seconds), Message: message, Instance: instance, Namespace: "n", Name: name}
	}
	lines := []Line{
		line(5, ends, "b", "early"), // before the kill: the killed instance took it over afterwards
		line(9, begins, "a", "slow"),
		line(11, ends, "a", "slow"), // logged by the killed instance
		line(18, begins, "b", "fast"), line(20, ends, "b", "fast"), line(30, ends, "b", "fast"),
		line(21, begins, "c", "slow"), line(25, ends, "c", "slow"),
		line(22, begins, "c", "never"),
	}
	took, missing := Recovery(lines, "a", at(10), []string{"n/slow", "n/fast", "n/never", "n/early"})
	if !slices.Equal(took, []time.Duration{10 * time.Second, 15 * time.Second}) || !slices.Equal(missing, []string{"n/never", "n/early"}) {
		t.Errorf("got %v, without %v", took, missing)
	}
	if last := LastBefore(lines, at(10)); last != "a" {
		t.Errorf("the last one before the kill: got %s", last)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	const text = `{"level":"debug","ts":"2026-11-15T16:00:00.123456789Z","msg":"Reconcile begins","instance":"a","namespace":"n","name":"w","id":"1"}
{"level":"info","ts":"2026-11-15T16:00:00.2Z","msg":"Something else about \"Reconcile \""}
panic: this is not JSON
{"level":"debug","ts":"2026-11-15T16:00:01Z","msg":"Reconcile ends","instance":"a","namespace":"n","name":"w","id":"1"}
{"level":"debug","ts":"2026-11-15T16:00:02Z","msg":"Reconcile beg`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil || len(got) != 2 || got[0].At.Nanosecond() != 123456789 || Reconciles(got) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := Read(path + ".missing"); err == nil {
		t.Error("a log that does not exist was read")
	}
}
