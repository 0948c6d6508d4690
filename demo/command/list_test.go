package command

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/demo/control"
)

func TestList(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	restartAt := now.Add(15 * time.Second)
	processes := []control.Process{
		{Name: "webhosting-operator-0", State: "running", PID: 4711, Since: now.Add(-3 * time.Minute)},
		{
			Name: "webhosting-operator-1", State: "waiting", Restarts: 1, Since: now.Add(-5 * time.Second),
			LastExit: "killed by you", RestartAt: &restartAt,
		},
	}
	for name, test := range map[string]struct {
		write     func(*bytes.Buffer, []control.Process) error
		processes []control.Process
		want      string
	}{
		"table": {
			func(out *bytes.Buffer, processes []control.Process) error { return writeTable(out, processes, now) }, processes,
			`NAME                    STATE     PID    RESTARTS   AGE   LAST EXIT
webhosting-operator-0   running   4711   0          3m    
webhosting-operator-1   waiting   -      1          5s    killed by you; restarts in 15s
`,
		},
		"JSON": {
			func(out *bytes.Buffer, processes []control.Process) error { return writeJSON(out, processes) }, processes[1:],
			`{
  "processes": [
    {
      "name": "webhosting-operator-1",
      "state": "waiting",
      "restarts": 1,
      "since": "2026-01-01T11:59:55Z",
      "lastExit": "killed by you",
      "restartAt": "2026-01-01T12:00:15Z"
    }
  ]
}
`,
		},
		"JSON without processes": {
			func(out *bytes.Buffer, processes []control.Process) error { return writeJSON(out, processes) },
			[]control.Process{},
			"{\n  \"processes\": []\n}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := test.write(&out, test.processes); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
