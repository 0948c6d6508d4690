package staleness_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/staleness"
)

func TestObserve(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	book := &staleness.Tracker{}
	for _, look := range []struct {
		name     string
		after    time.Duration // it takes a second
		versions map[string]string
		want     map[string]time.Duration
	}{
		{"the first", 0, map[string]string{"a": "1", "b": "1"}, map[string]time.Duration{"a": 0, "b": 0}},
		{"one has changed", 5 * time.Second, map[string]string{"a": "2", "b": "1"}, map[string]time.Duration{"a": 0, "b": 4 * time.Second}},
		{"one is gone", 8 * time.Second, map[string]string{"a": "2"}, map[string]time.Duration{"a": 2 * time.Second}},
		{"it is back", 9 * time.Second, map[string]string{"a": "2", "b": "1"}, map[string]time.Duration{"a": 3 * time.Second, "b": 0}},
		{"one that was asked earlier and answered later", 7 * time.Second, map[string]string{"a": "2", "b": "1"}, map[string]time.Duration{"a": time.Second, "b": 0}},
		{"an old answer", 10 * time.Second, map[string]string{"a": "1", "b": "1"}, map[string]time.Duration{"a": 0, "b": 0}},
		{"and a new one", 12 * time.Second, map[string]string{"a": "2", "b": "1"}, map[string]time.Duration{"a": 0, "b": 2 * time.Second}},
	} {
		asked := start.Add(look.after)
		if diff := cmp.Diff(look.want, book.Observe(asked, asked.Add(time.Second), look.versions)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", look.name, diff)
		}
	}
}

func TestDue(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	book := &staleness.Tracker{}
	for _, turn := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {0, false}, {time.Second - 1, false}, {time.Second, true}, {time.Second, false}} {
		if got := book.Due(start.Add(turn.after), time.Second); got != turn.want {
			t.Errorf("after %s it is due: %t", turn.after, got)
		}
	}
}

func TestPause(t *testing.T) {
	for name, test := range map[string]struct {
		durations []time.Duration
		want      time.Duration
	}{
		"nothing to look at": {nil, 2 * time.Second},
		"long":               {[]time.Duration{time.Minute, time.Hour}, 2 * time.Second},
		"the shortest":       {[]time.Duration{time.Minute, 15 * time.Second}, 1500 * time.Millisecond},
		"too short":          {[]time.Duration{time.Second}, 200 * time.Millisecond},
	} {
		if got := staleness.Interval(test.durations...); got != test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
