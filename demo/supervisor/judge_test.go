package supervisor

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestJudge(t *testing.T) {
	exit := errors.New("exit status 2")
	for name, test := range map[string]struct {
		end  end
		want verdict
	}{
		"it is to leave":            {end{wish: leave, asked: true}, verdict{phase: Stopped, note: "stopped"}},
		"it is to leave, killed":    {end{wish: leave, killed: true, err: exit}, verdict{phase: Stopped, note: "stopped"}},
		"it is to rest":             {end{wish: rest, asked: true}, verdict{phase: Stopped, note: "stopped by you"}},
		"killed":                    {end{killed: true, away: 20 * time.Second, err: exit}, verdict{phase: Waiting, after: 20 * time.Second, note: "killed by you"}},
		"killed after failures":     {end{killed: true, failures: 5, err: exit}, verdict{phase: Waiting, note: "killed by you"}},
		"wanted again, meanwhile":   {end{asked: true}, verdict{phase: Waiting, note: "stopped by you"}},
		"crashed":                   {end{err: exit}, verdict{phase: Waiting, after: time.Second, failures: 1, note: "crashed: exit status 2"}},
		"crashed again":             {end{err: exit, failures: 2}, verdict{phase: Waiting, after: 4 * time.Second, failures: 3, note: "crashed: exit status 2"}},
		"crashed for ever":          {end{err: exit, failures: 99}, verdict{phase: Waiting, after: 30 * time.Second, failures: 100, note: "crashed: exit status 2"}},
		"crashed after a long time": {end{err: exit, failures: 99, ran: time.Hour}, verdict{phase: Waiting, after: time.Second, failures: 1, note: "crashed: exit status 2"}},
		"crashed, and said why":     {end{err: exit, lastLine: "Error: the lease is lost"}, verdict{phase: Waiting, after: time.Second, failures: 1, note: "ended: the lease is lost"}},
		"ended for no reason":       {end{lastLine: "Error: bye"}, verdict{phase: Waiting, after: time.Second, failures: 1, note: "ended without being asked to"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, judge(test.end), cmp.AllowUnexported(verdict{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
