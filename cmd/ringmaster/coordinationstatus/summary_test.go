package coordinationstatus_test

import (
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// TestSummaryDuration shows the duration of an action only if one clock has measured it.
func TestSummaryDuration(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_000_000, 0)
	for name, test := range map[string]struct {
		token int64
		until time.Time
		want  string
	}{
		"one clock":                       {1, began.Add(6200 * time.Millisecond), "Restart of dc1-1, by dc2-operator with token 1, done after 6.2s"},
		"two clocks, the second one late": {2, began.Add(-time.Hour), "Restart of dc1-1, by dc2-operator with token 2, done"},
		"two clocks, the second one fast": {2, began.Add(time.Hour), "Restart of dc1-1, by dc2-operator with token 2, done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := coordinationstatus.System{View: &coordination.View{DoneRecords: []coordination.DoneRecord{{Until: test.until, Intent: coordination.Intent{
				ID: 1, Token: test.token, Holder: "dc2-operator", Since: began, Action: "Restart", Members: map[coordination.MemberID]int64{"dc1-1": 1},
			}}}}}
			if got := s.Summary().Done; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
