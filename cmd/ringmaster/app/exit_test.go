package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
)

// TestStatusExitCode has reports with problems, and reports that are incomplete.
func TestStatusExitCode(t *testing.T) {
	problems := []status.Ring{{Name: "ring", Problems: []status.Problem{{Type: status.OrphanedObjects, Message: "1 object is orphaned"}}}}
	for name, test := range map[string]struct {
		report *status.Report
		err    error
		code   int
		want   string
	}{
		"no problems":             {&status.Report{}, nil, 0, ""},
		"problems":                {&status.Report{Rings: problems}, nil, 1, "1 object is orphaned"},
		"incomplete":              {&status.Report{Unreadable: []string{"configmaps: forbidden"}}, nil, 2, "not everything could be read:\nconfigmaps: forbidden"},
		"incomplete and problems": {&status.Report{Rings: problems, Unreadable: []string{"secrets: forbidden"}}, nil, 1, "1 object is orphaned"},
		"error":                   {nil, errors.New("unreachable"), 2, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&statusOptions{exitCode: true}).withExitCode(test.report, test.err)
			code := 0
			if err != nil {
				code = ExitCode(err)
			}
			if code != test.code || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("exit code %d: %v", code, err)
			}
			if err := (&statusOptions{}).withExitCode(test.report, test.err); !errors.Is(err, test.err) {
				t.Errorf("without --exit-code: %v", err)
			}
		})
	}
}
