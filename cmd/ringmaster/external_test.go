package main_test

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestExperiment runs a program of its own, with all arguments, its output and its exit code.
func TestExperiment(t *testing.T) {
	g := NewWithT(t)
	folder, p := rig.TempDir(t), &cliUser{t: t}
	// Another process writes the programs: a process that another test starts would inherit the open files of this one.
	shell := func(script string, args ...string) {
		t.Helper()
		_, stderr, err := p.run("/bin/sh", "", append([]string{"-ec", script}, args...)...)
		g.Expect(err).NotTo(HaveOccurred(), stderr)
	}
	ringmaster := filepath.Join(folder, "ringmaster")
	shell(`cp "$0" "$1"`, rig.Build(t, "./cmd/ringmaster", rig.Race), ringmaster)
	_, stderr, err := p.run(ringmaster, "", "experiment", "basic")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(And(ContainSubstring("program ringmaster-experiment not found"), ContainSubstring("make experiment")))

	shell(`printf '#!/bin/sh\necho "$*"\necho too slow >&2\nexit 3\n' > "$0"; chmod +x "$0"`, filepath.Join(folder, "ringmaster-experiment"))
	out, stderr, err := p.run(ringmaster, "", "experiment", "basic", "--scale", "0.2", "--help")
	g.Expect(err).To(MatchError("exit status 3"))
	g.Expect(out).To(Equal("basic --scale 0.2 --help\n"))
	g.Expect(stderr).To(Equal("too slow\n"), "and nothing more")

	shell(`printf '#!/bin/sh\necho "$*"\necho "--mode\tlead or shard"\necho :4\n' > "$0"; chmod +x "$0"`, filepath.Join(folder, "ringmaster-demo"))
	out, _, err = p.run(ringmaster, "", "__complete", "up", "--shards", "3", "--m")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(Equal("__complete up --shards 3 --m\n--mode\tlead or shard\n:4\n"), "the other program completes its flags")
}
