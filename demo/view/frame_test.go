package view_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/demo/view"
)

var update = flag.Bool("update", false, "write the golden files")

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// steadyState is a ring in which all shards and objects are ready.
func steadyState() view.State {
	return view.State{
		Now: at(133), StartedAt: start, Kubernetes: "v1.37.1", Mode: view.ModeShard,
		Ring: view.Ring{Name: "webhosting-operator"},
		Instances: []view.Instance{
			{Name: "webhosting-operator-0", Process: "running", Lease: "ready", PID: 4711, Since: at(5), Objects: 11},
			{Name: "webhosting-operator-1", Process: "running", Lease: "ready", PID: 4712, Since: at(5), Objects: 10},
			{Name: "webhosting-operator-2", Process: "running", Lease: "ready", PID: 4713, Since: at(5), Objects: 9},
		},
		Sharders: []view.Instance{
			{Name: "sharder-0", Process: "running", PID: 4700, Since: at(2), Candidate: true, Leads: true},
			{Name: "sharder-1", Process: "running", PID: 4701, Since: at(2), Candidate: true},
		},
		Objects: view.Objects{Name: "website", Total: 30, Ready: 30},
		Hints: view.Hints{
			Setup: ". /tmp/ringmaster-1793323778/env",
			Suggestions: []view.Suggestion{
				{"kubectl get websites -A -L shard.alpha.sharding.timebertt.dev/webhosting-operator", "the shard of each website"},
				{`kubectl patch theme exciting --type=merge -p '{"spec":{"color":"orange"}}'`, "look at a website before and after"},
				{"ringmaster demo kill webhosting-operator-1", "its websites move to the others when its Lease has expired"},
				{"ringmaster demo scale 5", "the new instances get a share, the rest does not move"},
				{"ringmaster demo pause webhosting-operator-1", "like kill, but after 'resume' it notices that its Lease is lost, and exits"},
				{"ringmaster demo websites 500", "more websites"},
			},
			Pages: "http://127.0.0.1:12345/",
		},
		Selected: "webhosting-operator-0",
	}
}

// failover is the same ring after a shard was killed, while objects move.
func failover() view.State {
	s := steadyState()
	s.Instances[0] = view.Instance{
		Name: "webhosting-operator-0", Process: "waiting", Lease: "dead", Since: at(116), RestartAt: at(136), Restarts: 1,
		Note: "killed by you", Objects: 3,
	}
	s.Instances[1].Objects, s.Instances[1].Draining = 14, 2
	s.Instances[2].Objects, s.Instances[2].Restarts, s.Instances[2].Note = 13, 2, "ended: the lease of this instance is lost"
	s.Objects.Ready, s.Objects.Draining, s.Objects.Unassigned, s.Objects.Orphaned = 28, 2, 1, 3
	s.Moved = 7
	s.Moves = []view.Move{
		{At: at(100), Object: "project-bakery/menu", From: "webhosting-operator-2", To: "webhosting-operator-0"},
		{At: at(132), Object: "project-bakery/jobs", From: "webhosting-operator-0", To: "webhosting-operator-1"},
		{At: at(132), Object: "project-museum/a-site-with-quite-a-long-name", From: "webhosting-operator-0", To: "webhosting-operator-2"},
	}
	s.Events = []view.Event{
		{Number: 1, At: at(116), About: "webhosting-operator-0", Message: "killed by you; restarts in 20s"},
		{Number: 2, At: at(132), About: "webhosting-operator-0", Message: "The shard has not renewed its lease", Warning: true},
	}
	s.Message = "Killed webhosting-operator-0. It restarts in 20s."
	return s
}

func lead() view.State {
	s := steadyState()
	s.Mode, s.Sharders = view.ModeLead, nil
	for i := range s.Instances {
		s.Instances[i].Lease, s.Instances[i].Candidate, s.Instances[i].Objects = "", true, 0
	}
	s.Instances[1].Leads, s.Instances[1].Objects = true, 30
	return s
}

func inProcess() view.State {
	s := steadyState()
	s.Mode, s.Sharders = view.ModeInProcess, nil
	for i := range s.Instances {
		s.Instances[i].Candidate = true
	}
	s.Instances[2].Leads = true
	return s
}

func text(frame []view.Line) string {
	var lines []string
	for _, line := range frame {
		lines = append(lines, line.Text())
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestFrame(t *testing.T) {
	notReady := steadyState()
	notReady.Ring.Problem = "no shard is ready"
	leaderless := lead()
	leaderless.Instances[1].PID, leaderless.Instances[1].Process, leaderless.Instances[1].RestartAt = 0, "waiting", at(150)
	many := steadyState()
	for range 40 {
		many.Instances = append(many.Instances, many.Instances[0])
	}
	crowded := steadyState()
	crowded.Instances[0].Objects, crowded.Instances[1].Objects = 5000, 1
	helpShown := steadyState()
	helpShown.Help = true
	for name, test := range map[string]struct {
		state         view.State
		width, height int
	}{
		"steady":     {steadyState(), 120, 32},
		"failover":   {failover(), 120, 32},
		"small":      {failover(), 80, 24},
		"medium":     {failover(), 100, 30},
		"high":       {failover(), 80, 34},
		"help":       {helpShown, 80, 24},
		"help-low":   {helpShown, 60, 12},
		"narrow":     {failover(), 40, 20},
		"low":        {failover(), 100, 9},
		"tiny":       {failover(), 19, 4},
		"lead":       {lead(), 100, 24},
		"leaderless": {leaderless, 100, 24},
		"in-process": {inProcess(), 100, 24},
		"not-ready":  {notReady, 100, 24},
		"many":       {many, 100, 24},
		"crowded":    {crowded, 100, 24},
		"empty":      {view.State{Now: start, StartedAt: start, Mode: view.ModeShard, Objects: view.Objects{Name: "website"}}, 80, 24},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".txt", text(view.Frame(test.state, test.width, test.height)))
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("run the test with -update to accept the difference:\n%s", diff)
	}
}

// lineContinuation matches where a command is continued on the next line.
var lineContinuation = regexp.MustCompile(` \\\n +`)

// TestCommandsAreNotTruncated expects the setup command and the URL of the websites in terminals of
// usual sizes.
func TestCommandsAreNotTruncated(t *testing.T) {
	helpShown := steadyState()
	helpShown.Help = true
	long := steadyState()
	long.Hints.Setup = ". /var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/" + strings.Repeat("long/", 20) + "ringmaster-1793323778/env"
	for name, state := range map[string]view.State{
		"steady": steadyState(), "failover": failover(), "lead": lead(), "in-process": inProcess(), "help": helpShown, "a long path": long,
	} {
		for _, size := range [][2]int{{40, 24}, {80, 24}, {80, 34}, {100, 30}, {120, 40}} {
			shown := text(view.Frame(state, size[0], size[1]))
			// A shell joins continued lines.
			whole := strings.ReplaceAll(lineContinuation.ReplaceAllString(shown, " "), "\\\n", "")
			for _, wanted := range []string{"  " + state.Hints.Setup + "\n", "websites: " + state.Hints.Pages + "\n"} {
				if !strings.Contains(whole, wanted) {
					t.Errorf("%s, %dx%d: %q is missing:\n%s", name, size[0], size[1], wanted, shown)
				}
			}
			if !state.Help && !strings.Contains(shown, "q quit") {
				t.Errorf("%s, %dx%d: the key to quit is missing:\n%s", name, size[0], size[1], shown)
			}
		}
	}
}

// TestFrameFits draws on terminals of all sizes.
func TestFrameFits(t *testing.T) {
	for name, state := range map[string]view.State{
		"steady": steadyState(), "failover": failover(), "lead": lead(), "in-process": inProcess(), "empty": {}, "help": {Help: true, Hints: steadyState().Hints},
	} {
		for width := 0; width < 140; width += 3 {
			for height := range 45 {
				frame := view.Frame(state, width, height)
				if len(frame) > height {
					t.Fatalf("%s: %d lines on %dx%d", name, len(frame), width, height)
				}
				for _, line := range frame {
					if got := utf8.RuneCountInString(line.Text()); got > width {
						t.Fatalf("%s: a line of %d on %dx%d: %q", name, got, width, height, line.Text())
					}
				}
			}
		}
	}
}

// TestFrameSanitizesText shows text with control characters.
func TestFrameSanitizesText(t *testing.T) {
	const attack = "a\x1b[2Jb\rc\u009bd\ne\u0301\u4e2d"
	state := failover()
	state.Ring.Problem, state.Kubernetes, state.Message = attack, attack, attack
	state.Instances[0].Name, state.Instances[0].Note = attack, attack
	state.Moves[0] = view.Move{Object: attack, From: attack, To: attack}
	state.Events[0].About, state.Events[0].Message = attack, attack
	for _, line := range view.Frame(state, 200, 60) {
		for _, r := range line.Text() {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x4e2d || r == 0x301 {
				t.Errorf("%q is in %q", r, line.Text())
			}
		}
	}
}

func TestANSI(t *testing.T) {
	line := view.Line{{"a", view.Plain}, {"b", view.Good}, {"", view.Bad}, {"c", view.Marked}}
	if got, want := line.ANSI(), "a\x1b[32mb\x1b[0m\x1b[7mc\x1b[0m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
