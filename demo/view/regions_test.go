package view_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/view"
)

// region is a healthy region.
func region(name string, leads bool) view.Region {
	return view.Region{
		Name: name, Mode: view.ModeGlobal, Desired: 1, Ready: 1, Reconciled: true,
		Operator: view.Instance{Name: name + "-operator", Process: "running", PID: 4711, Since: at(5)},
		Agent:    view.Instance{Name: name + "-agent", Process: "running", PID: 4701, Since: at(2)},
		Members: []view.Member{
			{ID: name + "-1", Phase: "Voter", Healthy: true, Leader: leads, ArgsCurrent: true, PID: 4721, Since: at(8), Args: "--snapshot-count=10000"},
		},
	}
}

func steadyRegionsState() view.Regions {
	return view.Regions{
		Now: at(133), StartedAt: start, Kubernetes: "v1.37.1", Mode: view.ModeGlobal, System: "orders",
		Regions: []view.Region{region("dc1", true), region("dc2", false), region("dc3", false)},
		Coordination: coordinationstatus.Summary{
			Roles: map[string]string{"dc1-operator": "", "dc2-operator": "", "dc3-operator": ""},
			Done:  "Inclusion of dc2-1, dc3-1, by dc1-operator with token 1, done after 6.2s",
		},
		Clients: view.Clients{Writes: 1200, Slowest: 20 * time.Millisecond},
		Hints: view.Hints{
			Setup: ". /tmp/ringmaster-1/env",
			Suggestions: []view.Suggestion{
				{"ringmaster coordination status --endpoints http://127.0.0.1:12345 --watch", "what the operators coordinate"},
				{"ringmaster demo restart", "change an argument in all regions"},
			},
		},
		Selected: "dc1-operator",
	}
}

// restarting is a restart in progress, with an operator that hangs.
func restarting() view.Regions {
	s := steadyRegionsState()
	s.Regions[0].Waiting = "dc3-1 is not well yet"
	s.Regions[1].Operator.Process = "paused"
	s.Regions[2].Operator = view.Instance{Name: "dc3-operator", Process: "waiting", RestartAt: at(140), Since: at(120), Restarts: 1, Note: "killed by you"}
	s.Regions[2].Ready, s.Regions[2].Members[0].Healthy = 0, false
	s.Regions[0].Members[0].ArgsCurrent = false
	s.Coordination = coordinationstatus.Summary{
		Roles:  map[string]string{"dc1-operator": "carries out the Restart, step 2 of 4", "dc2-operator": "has to restart dc2-1"},
		Holder: "dc1-operator", Token: 7, Since: at(121),
		Plan: &coordinationstatus.PlanSummary{Action: "Restart of dc1-1, dc2-1, dc3-1", By: "dc1-operator", Since: at(121), At: 1, Steps: []coordinationstatus.StepSummary{
			{What: "restart dc3-1"},
			{What: "restart dc2-1", Note: "dc2 has to answer"},
			{What: "move-leader dc3-1"},
			{What: "restart dc1-1"},
		}},
		Pending: []coordinationstatus.PendingSummary{
			{Member: "dc1-1", Action: "Removal", State: "ready"},
			{Member: "dc1-1", Action: "Restart", State: "being done"},
			{Member: "dc2-1", Action: "Restart", State: "being done"},
		},
		Waits: []string{"Restart is being done."},
	}
	s.Clients = view.Clients{Writes: 1300, Failed: 1, Slow: 2, Slowest: 312 * time.Millisecond, Elections: 1}
	s.Events = []view.Event{
		{Number: 1, At: at(121), About: "dc1-operator", Message: "Restart of dc1-1, dc2-1, dc3-1 begins, with token 7."},
		{Number: 2, At: at(125), About: "client", Message: "a write fails: no leader", Warning: true},
	}
	s.Message = "Paused dc2-operator."
	return s
}

// replacing is a replacement with more steps than most terminals have lines.
func replacing() view.Regions {
	s := steadyRegionsState()
	plan := &coordinationstatus.PlanSummary{Action: "Exclusion of dc1-1, dc2-1, dc3-1", By: "dc2-operator", Since: at(100), At: 9}
	for _, region := range []string{"dc1", "dc2", "dc3"} {
		for _, step := range []string{"add-learner " + region + "-2", "start " + region + "-2", "promote " + region + "-2", "remove " + region + "-1", "stop " + region + "-1"} {
			plan.Steps = append(plan.Steps, coordinationstatus.StepSummary{What: step})
		}
	}
	s.Coordination.Plan = plan
	s.Regions[1].Waiting = "dc2-2 has to have the data first"
	for i := range s.Regions {
		s.Regions[i].Members[0].Removing = true
		phase := []string{"Voter", "Learner", "Prepared"}[i]
		s.Regions[i].Members = append(s.Regions[i].Members, view.Member{ID: s.Regions[i].Name + "-2", Phase: phase, ArgsCurrent: true, Healthy: i == 0})
	}
	return s
}

func localRegions() view.Regions {
	s := steadyRegionsState()
	s.Mode = view.ModeLocal
	for i := range s.Regions {
		s.Regions[i].Mode = view.ModeLocal
	}
	s.Regions[1].Waiting = "dc1-operator holds the lock with token 3"
	s.Coordination = coordinationstatus.Summary{Holder: "dc1-operator", Token: 3, Since: at(130)}
	return s
}

func TestFrameRegions(t *testing.T) {
	unknown := steadyRegionsState()
	unknown.Coordination = coordinationstatus.Summary{Problem: "context deadline exceeded"}
	unknown.Clients.Problem = "no leader"
	unknown.Regions[0].Members[0].Leader = false
	help := steadyRegionsState()
	help.Help = true
	for name, test := range map[string]struct {
		state         view.Regions
		width, height int
	}{
		"steady":     {steadyRegionsState(), 130, 40},
		"restarting": {restarting(), 130, 40},
		"small":      {restarting(), 80, 24},
		"narrow":     {restarting(), 40, 20},
		"low":        {restarting(), 100, 9},
		"replacing":  {replacing(), 110, 34},
		"local":      {localRegions(), 110, 30},
		"unknown":    {unknown, 110, 30},
		"help":       {help, 100, 24},
		"tiny":       {restarting(), 19, 4},
		"empty":      {view.Regions{Now: start, StartedAt: start, Mode: view.ModeGlobal}, 80, 24},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, "regions-"+name+".txt", text(view.FrameRegions(test.state, test.width, test.height)))
		})
	}
}

// TestFrameRegionsFits draws on terminals of all sizes.
func TestFrameRegionsFits(t *testing.T) {
	help := restarting()
	help.Help = true
	for name, state := range map[string]view.Regions{
		"steady": steadyRegionsState(), "restarting": restarting(), "replacing": replacing(), "local": localRegions(), "help": help, "empty": {},
	} {
		for width := 0; width < 140; width += 3 {
			for height := range 45 {
				frame := view.FrameRegions(state, width, height)
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

// TestFrameRegionsSanitizesText shows text with control characters.
func TestFrameRegionsSanitizesText(t *testing.T) {
	const attack = "a\x1b[2Jb\rc\u009bd\ne\u0301\u4e2d"
	state := restarting()
	state.System, state.Kubernetes, state.Message = attack, attack, attack
	state.Regions[0].Members[0].ID, state.Regions[0].Members[0].Phase, state.Regions[0].Members[0].Args = attack, attack, attack
	state.Regions[2].Operator.Note = attack
	state.Coordination.Holder, state.Coordination.Roles["dc1-operator"], state.Coordination.Waits = attack, attack, []string{attack}
	state.Coordination.Plan.Steps[1] = coordinationstatus.StepSummary{What: attack, Note: attack}
	state.Events[0].About, state.Events[0].Message = attack, attack
	lines := view.RegionChanges(steadyRegionsState(), state)
	for _, line := range view.FrameRegions(state, 200, 60) {
		lines = append(lines, line.Text())
	}
	for _, line := range append(lines, view.RegionsSummary(state)) {
		for _, r := range line {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x4e2d || r == 0x301 {
				t.Errorf("%q is in %q", r, line)
			}
		}
	}
}

func TestRegionChanges(t *testing.T) {
	moved := steadyRegionsState()
	moved.Regions[0].Members[0].Leader, moved.Regions[1].Members[0].Leader = false, true
	moved.Regions[1].Members[0].PID++
	for name, test := range map[string]struct {
		before, after view.Regions
		want          string
	}{
		"no change": {steadyRegionsState(), steadyRegionsState(), ""},
		"a restart": {steadyRegionsState(), restarting(), `
12:02:01  dc1-operator: Restart of dc1-1, dc2-1, dc3-1 begins, with token 7.
12:02:05  client: a write fails: no leader
12:02:13  dc1-operator holds the lock with token 7
12:02:13  Restart of dc1-1, dc2-1, dc3-1, step 2 of 4: restart dc2-1: dc2 has to answer`},
		"no change since": {restarting(), restarting(), ""},
		"the end of it": {restarting(), steadyRegionsState(), `
12:02:13  Inclusion of dc2-1, dc3-1, by dc1-operator with token 1, done after 6.2s`},
		"another leader": {steadyRegionsState(), moved, `
12:02:13  dc2-1: restarted, process 4721 → 4722
12:02:13  dc2-1 leads`},
		"new members": {steadyRegionsState(), func() view.Regions { s := replacing(); s.Coordination.Plan = nil; return s }(), `
12:02:13  dc1-2: new → Voter
12:02:13  dc2-2: new → Learner
12:02:13  dc3-2: new → Prepared`},
		"removed members": {replacing(), steadyRegionsState(), `
12:02:13  dc1-2: removed
12:02:13  dc2-2: removed
12:02:13  dc3-2: removed`},
		"from empty state": {view.Regions{}, view.Regions{Now: start}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lines := view.RegionChanges(test.before, test.after)
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRegionsSummary(t *testing.T) {
	for want, state := range map[string]view.Regions{
		"0 of 0 members voting, leader none; client: 0 failed writes, 0 leader changes": {},
		"2 of 3 members voting, leader dc1-1; client: 1 failed writes, 1 leader change": restarting(),
	} {
		if got := view.RegionsSummary(state); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAllReconciled(t *testing.T) {
	unreconciled := steadyRegionsState()
	unreconciled.Regions[2].Reconciled = false
	for name, test := range map[string]struct {
		state view.Regions
		want  bool
	}{"all": {steadyRegionsState(), true}, "not all": {unreconciled, false}, "no regions": {view.Regions{}, false}} {
		if got := test.state.AllReconciled(); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// regionsSource is a source of regions.
type regionsSource struct{ *fakeTerminal }

func (c regionsSource) State() view.Regions { return restarting() }

func TestKeysOfRegions(t *testing.T) {
	for name, test := range map[string]struct {
		keys string
		want []control.Request
	}{
		"kill the first":     {"k", []control.Request{{Command: control.Kill, Name: "dc1-operator", Away: view.Away}}},
		"pause the second":   {"2p", []control.Request{{Command: control.Pause, Name: "dc2-operator", Away: view.Away}}},
		"stop an agent":      {"6s", []control.Request{{Command: control.Stop, Name: "dc3-agent", Away: view.Away}}},
		"no seventh process": {"27r", []control.Request{{Command: control.Resume, Name: "dc2-operator", Away: view.Away}}},
		"restart":            {"a", []control.Request{{Command: control.Restart}}},
		"replace":            {"m", []control.Request{{Command: control.Replace}}},
		"no scaling":         {"+-w", nil},
		"help hides keys":    {"?ka", []control.Request{{Command: control.Restart}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeTerminal()
				ctx, cancel := context.WithCancel(t.Context())
				t.Cleanup(cancel)
				go view.LiveRegions(ctx, regionsSource{s}, s, s, false)
				for _, key := range []byte(test.keys) {
					s.keys <- key
					time.Sleep(time.Second)
					synctest.Wait()
				}
				if diff := cmp.Diff(test.want, s.requests); diff != "" {
					t.Error(diff)
				}
				s.resized <- os.Interrupt
				synctest.Wait()
				if !s.shows("orders") {
					t.Errorf("shown:\n%s", s.shown)
				}
			})
		})
	}
}
