package history

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestDoubles(t *testing.T) {
	t.Parallel()
	line := func(message, instance string) Line { return Line{Message: message, Instance: instance} }
	for name, test := range map[string]struct {
		history []Line
		want    int
	}{
		"one after the other":       {[]Line{line(begins, "a"), line(ends, "a"), line(begins, "b"), line(ends, "b")}, 0},
		"at the same time":          {[]Line{line(begins, "a"), line(begins, "b"), line(ends, "a"), line(ends, "b")}, 1},
		"after a death":             {[]Line{line(begins, "a"), line(halted, "a"), line(begins, "b"), line(ends, "b")}, 0},
		"before a death":            {[]Line{line(begins, "a"), line(begins, "b"), line(halted, "a"), line(ends, "b")}, 1},
		"after another's death":     {[]Line{line(begins, "a"), line(halted, "c"), line(begins, "b")}, 1},
		"one that was paused ends":  {[]Line{line(begins, "a"), line(halted, "a"), line(begins, "b"), line(ends, "a"), line(begins, "c")}, 1},
		"one that was paused works": {[]Line{line(halted, "a"), line(begins, "b"), line(begins, "a")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range test.history {
				test.history[i].At = time.Unix(int64(i), 0)
			}
			if found := Doubles(test.history); len(found) != test.want {
				t.Errorf("found %q", found)
			}
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	const text = `{"level":"debug","ts":"2026-11-15T16:00:00.123456789Z","msg":"Reconcile begins","instance":"a","namespace":"n","name":"w","id":"1"}
{"level":"info","ts":"2026-11-15T16:00:00.2Z","msg":"Something else about \"Reconcile \""}
panic: this is no JSON
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
		t.Error("there is such a log")
	}
}
