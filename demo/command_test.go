package main_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestInvalidCommands(t *testing.T) {
	d := &demo{WithT: NewWithT(t), t: t, tmp: rig.TempDir(t)} // not running
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a typing error":     {[]string{"klll"}, "unknown command \"klll\"; did you mean kill?\nSee 'ringmaster demo --help'"},
		"too many arguments": {[]string{"up", "now"}, "See 'ringmaster demo up --help'"},
		"no process":         {[]string{"kill"}, "PROCESS is missing, as in 'ringmaster demo kill webhosting-operator-1'; no demo is running"},
		"two processes":      {[]string{"stop", "a", "b"}, "2 arguments given, want one PROCESS, as in 'ringmaster demo stop webhosting-operator-1'\nSee 'ringmaster demo stop --help'"},
		"no number":          {[]string{"scale"}, "NUMBER is missing, as in 'ringmaster demo scale 5'"},
		"below 0":            {[]string{"scale", "-1"}, "\"-1\" is not a valid NUMBER: it must be 0 or more\nSee 'ringmaster demo scale --help'"},
		"far below 0":        {[]string{"websites", "-50"}, "\"-50\" is not a valid NUMBER"},
		"below 0, quoted":    {[]string{"scale", "--", "-1"}, "\"-1\" is not a valid NUMBER: it must be 0 or more, as in 'ringmaster demo scale 5'"},
		"no such folder":     {[]string{"kill", "x", "--data-dir", "/nonexistent"}, "folder /nonexistent not found"},
		"negative delay":     {[]string{"kill", "x", "--away", "-1s"}, "--away -1s is negative"},
		"unknown output":     {[]string{"list", "-o", "yaml"}, "unknown output format \"yaml\" (available: json)\nSee 'ringmaster demo list --help'"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(d.command(test.args...)).To(ContainSubstring(test.want))
		})
	}
}
