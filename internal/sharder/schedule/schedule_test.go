package schedule_test

import (
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/sharder/schedule"
)

const period = 5 * time.Minute

var (
	start    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	websites = schedule.Kind{Group: "example.com", Resource: "websites"}
	secrets  = schedule.Kind{Resource: "secrets"}
)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// swept is a ring that began with a resync and a sweep, both done at once.
func swept() schedule.State {
	return schedule.State{}.Restart(start, period, schedule.Resync).AfterResync(start, start).AfterSweep(start, 1000, 0)
}

// quiet is the same after its follow-ups.
func quiet() schedule.State { return swept().AfterRescue(at(15), at(15)) }

func TestNext(t *testing.T) {
	failed := func(kinds ...schedule.Kind) map[schedule.Kind]bool {
		result := map[schedule.Kind]bool{}
		for _, kind := range kinds {
			result[kind] = true
		}
		return result
	}
	for name, test := range map[string]struct {
		state schedule.State
		now   float64
		want  schedule.Action
		at    float64
	}{
		"after a join":                           {schedule.State{}.Restart(start, period, schedule.Resync), 0, schedule.Resync, 0},
		"after a departure":                      {schedule.State{}.Restart(start, period, schedule.Rescue), 0, schedule.Rescue, 0},
		"before anything is known of children":   {schedule.State{}.Restart(start, period, schedule.Resync).AfterResync(start, start), 0, schedule.Sweep, 0},
		"just after a change":                    {swept(), 0, schedule.Rescue, 1},
		"after the first follow-up":              {swept().AfterRescue(at(1), at(1)), 1, schedule.Rescue, 5},
		"after a slow resync":                    {swept().AfterResync(at(2), at(40)), 40, schedule.Rescue, 40},
		"after a slow resync and its follow-ups": {swept().AfterResync(at(2), at(40)).AfterRescue(at(40), at(41)), 41, schedule.Rescue, 70},
		"after a slow rescue":                    {quiet().AfterRescue(at(45), at(90)), 90, schedule.Rescue, 95},
		"a sweep failed":                         {quiet().AfterRescue(at(50), at(50)).AfterFailedSweep(at(20)), 50, schedule.Rescue, 80},
		"a failed sweep is repeated":             {quiet().AfterRescue(at(70), at(70)).AfterFailedSweep(at(30)), 70, schedule.Sweep, 90},
		"at rest":                                {quiet(), 15, schedule.Rescue, 45},
		"late":                                   {quiet(), 100, schedule.Rescue, 100},
		"the resync is due":                      {quiet().AfterRescue(at(290), at(290)), 290, schedule.Resync, 300},
		"a shard is leaving":                     {schedule.State{}.Restart(start, period, schedule.Rescue).ResyncBefore(at(60)).AfterSweep(start, 1000, 0).AfterRescue(at(55), at(55)), 55, schedule.Resync, 60},
		"an object was refused":                  {quiet().WithRetryObjects(at(17)), 15, schedule.RetryObjects, 17},
		"a refused object is due after a rescue": {quiet().WithRetryObjects(at(50)), 15, schedule.Rescue, 45},
		"a kind failed once":                     {quiet().AfterList(failed(websites), at(15)), 15, schedule.RetryKinds, 16},
		"a kind failed three times":              {quiet().AfterList(failed(websites), at(15)).AfterList(failed(websites), at(15)).AfterList(failed(websites), at(15)), 15, schedule.RetryKinds, 19},
		"a kind recovered":                       {quiet().AfterList(failed(websites), at(15)).AfterList(map[schedule.Kind]bool{websites: false}, at(16)), 16, schedule.Rescue, 45},
		"a kind left the ring":                   {quiet().AfterList(failed(websites), at(15)).Forget(func(kind schedule.Kind) bool { return kind == websites }), 16, schedule.Rescue, 45},
		"drains are outstanding":                 {quiet().WithDrains(true, at(15)), 15, schedule.PollDrains, 15.5},
		"drains are known":                       {quiet().WithDrains(true, at(15)).WithDrains(true, at(15.2)), 15.2, schedule.PollDrains, 15.5},
		"drains are acknowledged":                {quiet().WithDrains(true, at(15)).AfterPoll(true, time.Time{}, at(16)), 16, schedule.PollDrains, 16.5},
		"drains are not acknowledged":            {quiet().WithDrains(true, at(15)).AfterPoll(false, time.Time{}, at(16)).AfterPoll(false, time.Time{}, at(18)), 18, schedule.PollDrains, 20},
		"a drain is about to time out":           {quiet().WithDrains(true, at(15)).AfterPoll(false, time.Time{}, at(16)).AfterPoll(false, at(19), at(18)), 18, schedule.PollDrains, 19},
		"a drain has timed out":                  {quiet().WithDrains(true, at(15)).AfterPoll(true, at(16), at(16)), 16, schedule.PollDrains, 16.5},
		"no drain is left":                       {quiet().WithDrains(true, at(15)).WithDrains(false, at(16)), 16, schedule.Rescue, 45},
		"few objects are cheap to sweep":         {quiet().AfterRescue(at(50), at(50)).AfterSweep(at(50), 1, 0).AfterRescue(at(105), at(105)), 105, schedule.Sweep, 110},
		"more objects cost more":                 {quiet().AfterResync(at(200), at(200)).AfterSweep(at(200), 10, 0).AfterRescue(at(375), at(375)), 375, schedule.Sweep, 380},
		"an outage is suspected":                 {quiet().AfterRescue(at(290), at(290)).AfterResync(at(301), at(301)).SuspectOutage(at(302)), 302, schedule.Sweep, 302},
		"an outage lasts":                        {quiet().AfterSweep(at(302), 1000, 0).SuspectOutage(at(303)).AfterRescue(at(590), at(590)).AfterResync(at(595), at(595)), 595, schedule.Sweep, 602},
	} {
		t.Run(name, func(t *testing.T) {
			got, when := test.state.Next(at(test.now))
			if got != test.want || !when.Equal(at(test.at)) {
				t.Errorf("%s after %s, want %s after %s", got, when.Sub(start), test.want, at(test.at).Sub(start))
			}
		})
	}
}

func TestFailingKindsBackOffAlone(t *testing.T) {
	state := quiet()
	for range 20 {
		state = state.AfterList(map[schedule.Kind]bool{websites: true, secrets: false}, start)
	}
	if !state.BackingOff(websites, at(59)) || state.BackingOff(websites, at(60)) {
		t.Error("a kind that keeps failing is retried once a minute")
	}
	if state.BackingOff(secrets, start) || state.Failed(secrets) {
		t.Error("another kind backs off, too")
	}
	state = state.Restart(at(10), period, schedule.Rescue)
	if state.BackingOff(websites, at(10)) {
		t.Error("a change of the members does not try the kind at once")
	}
	if state = state.AfterList(map[schedule.Kind]bool{websites: true}, at(10)); !state.BackingOff(websites, at(69)) {
		t.Error("a change of the members makes the kind begin again with short retries")
	}
}

// TestStatesAreValues shows that a State is not changed by what is made of it.
func TestStatesAreValues(t *testing.T) {
	before := quiet().AfterList(map[schedule.Kind]bool{websites: true}, at(15))
	_ = before.AfterList(map[schedule.Kind]bool{websites: false, secrets: true}, at(15))
	_ = before.Restart(at(40), period, schedule.Resync)
	_ = before.Forget(func(schedule.Kind) bool { return true })
	if !before.Failed(websites) || before.Failed(secrets) {
		t.Error("it was changed")
	}
	if action, when := before.Next(at(15)); action != schedule.RetryKinds || !when.Equal(at(16)) {
		t.Errorf("%s at %s", action, when)
	}
}

// TestSweepsOfRingsAreSpread over a quarter of their period.
func TestSweepsOfRingsAreSpread(t *testing.T) {
	first, last := quiet().AfterSweep(start, 1000, 1), quiet().AfterSweep(start, 1000, 0)
	for _, state := range []*schedule.State{&first, &last} {
		for range 1000 { // until only the sweep is left
			action, when := state.Next(start)
			if action == schedule.Sweep {
				break
			}
			*state = state.AfterResync(when, when)
		}
	}
	_, early := first.Next(start)
	_, late := last.Next(start)
	if late.Sub(early) != schedule.SweepPeriod/4 || late.Sub(start) != schedule.SweepPeriod {
		t.Errorf("between %s and %s", early.Sub(start), late.Sub(start))
	}
}
