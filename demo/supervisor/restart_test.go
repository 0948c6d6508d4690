package supervisor

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDecide(t *testing.T) {
	failed := errors.New("exit status 2")
	for name, test := range map[string]struct {
		exit exit
		want decision
	}{
		"removed":                      {exit{desired: desiredRemoved, asked: true}, decision{phase: Stopped, note: "stopped"}},
		"removed, after it was killed": {exit{desired: desiredRemoved, killed: true, err: failed}, decision{phase: Stopped, note: "stopped"}},
		"stopped":                      {exit{desired: desiredStopped, asked: true}, decision{phase: Stopped, note: "stopped by you"}},
		"killed":                       {exit{killed: true, restartAfter: 20 * time.Second, err: failed}, decision{phase: Waiting, restartAfter: 20 * time.Second, note: "killed by you"}},
		"killed after failures":        {exit{killed: true, failures: 5, err: failed}, decision{phase: Waiting, note: "killed by you"}},
		"resumed while stopping":       {exit{asked: true}, decision{phase: Waiting, note: "stopped by you"}},
		"crashed":                      {exit{err: failed}, decision{phase: Waiting, restartAfter: time.Second, failures: 1, note: "crashed: exit status 2"}},
		"crashed again":                {exit{err: failed, failures: 2}, decision{phase: Waiting, restartAfter: 4 * time.Second, failures: 3, note: "crashed: exit status 2"}},
		"crashed many times":           {exit{err: failed, failures: 99}, decision{phase: Waiting, restartAfter: 30 * time.Second, failures: 100, note: "crashed: exit status 2"}},
		"crashed after a long time":    {exit{err: failed, failures: 99, uptime: time.Hour}, decision{phase: Waiting, restartAfter: time.Second, failures: 1, note: "crashed: exit status 2"}},
		"failed with a reason":         {exit{err: failed, lastLine: "Error: the lease is lost"}, decision{phase: Waiting, restartAfter: time.Second, failures: 1, note: "ended: the lease is lost"}},
		"exited without error":         {exit{lastLine: "Error: bye"}, decision{phase: Waiting, restartAfter: time.Second, failures: 1, note: "ended without being asked to"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, decide(test.exit), cmp.AllowUnexported(decision{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
