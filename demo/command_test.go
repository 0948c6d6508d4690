package main_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMistypedCommands(t *testing.T) {
	nowhere := &demo{WithT: NewWithT(t), t: t, tmp: rig.TempDir(t)} // where nothing is up
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"nearly a command":   {[]string{"klll"}, "unknown command \"klll\"; did you mean kill?\nSee 'ringmaster demo --help'"},
		"too many arguments": {[]string{"up", "now"}, "See 'ringmaster demo up --help'"},
		"no instance":        {[]string{"kill"}, "the INSTANCE is missing, as in 'ringmaster demo kill webhosting-operator-1'; nothing is up"},
		"two instances":      {[]string{"stop", "a", "b"}, "one INSTANCE at a time, as in 'ringmaster demo stop webhosting-operator-1'\nSee 'ringmaster demo stop --help'"},
		"no number":          {[]string{"scale"}, "the NUMBER is missing, as in 'ringmaster demo scale 5'"},
		"below 0":            {[]string{"scale", "-1"}, "\"-1\" is not a valid NUMBER: it must be 0 or more\nSee 'ringmaster demo scale --help'"},
		"far below 0":        {[]string{"websites", "-50"}, "\"-50\" is not a valid NUMBER"},
		"below 0, quoted":    {[]string{"scale", "--", "-1"}, "\"-1\" is not a valid NUMBER: it must be 0 or more, as in 'ringmaster demo scale 5'"},
		"no such folder":     {[]string{"kill", "x", "--data-dir", "/nonexistent"}, "the folder /nonexistent does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(nowhere.types(test.args...)).To(ContainSubstring(test.want))
		})
	}
}
