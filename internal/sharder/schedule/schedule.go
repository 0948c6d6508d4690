// Package schedule decides when the sharder lists the objects of a ring, and when it retries failures.
//
// It promises that no failure shortens the time to the next action below its backoff, however long the failure lasts: a
// kind that cannot be listed is retried alone, and neither delays nor repeats the others. It is pure: time is passed in.
package schedule

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Action is a pass over objects of a ring.
type Action string

// The actions, in the order of their priority among those that are due at the same time.
const (
	// Rescue lists unassigned and orphaned objects.
	Rescue Action = "rescue"
	// Resync lists all objects.
	Resync Action = "resync"
	// PollDrains lists the objects that are being drained.
	PollDrains Action = "pollDrains"
	// RetryObjects retries objects whose last write failed.
	RetryObjects Action = "retryObjects"
	// RetryKinds retries kinds whose last list failed.
	RetryKinds Action = "retryKinds"
	// Sweep lists the objects of controlled kinds without a shard label. Most of them are not in the ring.
	Sweep Action = "sweep"
)

// The times of actions without a known change.
const (
	// RescuePeriod is the time between two rescues. They find the objects that the webhook missed, because the sharder
	// cannot know when the API server does not reach it.
	RescuePeriod = 30 * time.Second
	// minRescuePause is the minimum pause between two rescues that take long.
	minRescuePause = 5 * time.Second
	// SweepPeriod is the maximum time between two sweeps, minSweepPeriod the minimum. In between, it is
	// sweepPeriodPerPage for each page of the last sweep, so that the rate of pages is the same in any cluster.
	SweepPeriod, sweepPeriodPerPage, minSweepPeriod = time.Hour, 18 * time.Second, time.Minute
	// outageSweepDivisor divides the time to the next sweep while an outage of the webhook is suspected.
	outageSweepDivisor = 12
	// minRetryKindDelay and maxRetryKindDelay bound the exponential backoff of a kind that cannot be listed.
	minRetryKindDelay, maxRetryKindDelay = time.Second, time.Minute
	// minPollDrainsDelay and maxPollDrainsDelay bound the time between two polls, which doubles while no drain is
	// acknowledged.
	minPollDrainsDelay, maxPollDrainsDelay = 500 * time.Millisecond, 30 * time.Second
)

// followUps are the delays of rescues after a change of the members. They find objects that another replica of the
// webhook has assigned by the previous ring.
var followUps = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second}

// Kind is a resource of the ring.
type Kind = schema.GroupResource

// State has the times of a ring's next actions. It is a value: methods return a new State. The zero value is a new ring.
type State struct {
	resyncPeriod time.Duration

	rescueAt, resyncAt time.Time
	followUpsAt        []time.Time
	sweepAt, sweptAt   time.Time
	sweepPeriod        time.Duration
	kinds              map[Kind]failure
	retryObjectsAt     time.Time
	drains             polling
}

// failure is a kind that could not be listed.
type failure struct {
	count int
	at    time.Time // of the next retry
}

// polling is the schedule of PollDrains.
type polling struct {
	at       time.Time // zero if no drains are outstanding
	interval time.Duration
}

// Restart schedules the actions after a change of the members or of the spec, of which the first is due now. Failed
// kinds are retried now as well, and keep their backoff.
func (s State) Restart(now time.Time, resyncPeriod time.Duration, first Action) State {
	s.resyncPeriod = resyncPeriod
	s.rescueAt, s.resyncAt = now.Add(RescuePeriod), now.Add(resyncPeriod)
	switch first {
	case Resync:
		s.resyncAt = now
	default:
		s.rescueAt = now
	}
	s.followUpsAt = nil
	for _, after := range followUps {
		s.followUpsAt = append(s.followUpsAt, now.Add(after))
	}
	if s.sweepAt.IsZero() {
		s.sweepAt = now
	}
	s.kinds = maps.Clone(s.kinds)
	for kind, failed := range s.kinds {
		s.kinds[kind] = failure{count: failed.count, at: now}
	}
	if !s.drains.at.IsZero() {
		s.drains = polling{at: now.Add(minPollDrainsDelay), interval: minPollDrainsDelay}
	}
	return s
}

// Next returns the next action and its time, which is not before now.
func (s State) Next(now time.Time) (Action, time.Time) {
	action, at := Rescue, s.rescueAt
	consider := func(other Action, due time.Time) {
		if !due.IsZero() && due.Before(at) {
			action, at = other, due
		}
	}
	if len(s.followUpsAt) > 0 {
		consider(Rescue, s.followUpsAt[0])
	}
	consider(Resync, s.resyncAt)
	consider(PollDrains, s.drains.at)
	consider(RetryObjects, s.retryObjectsAt)
	for _, failed := range s.kinds {
		consider(RetryKinds, failed.at)
	}
	consider(Sweep, s.sweepAt)
	if at.Before(now) {
		at = now
	}
	return action, at
}

// ResyncBefore schedules the next resync for a time, unless it is due earlier.
func (s State) ResyncBefore(at time.Time) State {
	if at.Before(s.resyncAt) {
		s.resyncAt = at
	}
	return s
}

// RescueBefore schedules the next rescue for a time, unless it is due earlier.
func (s State) RescueBefore(at time.Time) State {
	if at.Before(s.rescueAt) {
		s.rescueAt = at
	}
	return s
}

// BackingOff reports whether a kind failed and its retry is not due.
func (s State) BackingOff(kind Kind, now time.Time) bool { return now.Before(s.kinds[kind].at) }

// Failed reports whether the last list of a kind failed.
func (s State) Failed(kind Kind) bool { return s.kinds[kind].count > 0 }

// FollowUpsPending reports whether the members changed so recently that children may have been orphaned since their list.
func (s State) FollowUpsPending() bool { return len(s.followUpsAt) > 0 }

// AfterRescue schedules after a rescue that began at a time. Follow-ups that became due since then stay due.
func (s State) AfterRescue(began, now time.Time) State {
	s.rescueAt = latest(began.Add(RescuePeriod), now.Add(minRescuePause))
	s.followUpsAt = slices.DeleteFunc(slices.Clone(s.followUpsAt), func(at time.Time) bool { return !began.Before(at) })
	return s
}

// AfterResync schedules after a resync, which begins with a rescue.
func (s State) AfterResync(began, now time.Time) State {
	s = s.AfterRescue(began, now)
	s.resyncAt = now.Add(s.resyncPeriod)
	return s
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// AfterList schedules retries of the kinds that could not be listed. Kinds that are not in the map were not tried.
func (s State) AfterList(failed map[Kind]bool, now time.Time) State {
	s.kinds = maps.Clone(s.kinds)
	if s.kinds == nil {
		s.kinds = map[Kind]failure{}
	}
	for kind, failedNow := range failed {
		if !failedNow {
			delete(s.kinds, kind)
			continue
		}
		count := s.kinds[kind].count + 1
		s.kinds[kind] = failure{count: count, at: now.Add(backoff(minRetryKindDelay, maxRetryKindDelay, count))}
	}
	return s
}

// Forget removes the kinds that the ring no longer has.
func (s State) Forget(gone func(Kind) bool) State {
	s.kinds = maps.Clone(s.kinds)
	maps.DeleteFunc(s.kinds, func(kind Kind, _ failure) bool { return gone(kind) })
	return s
}

// backoff is base, doubled with each failure after the first, up to most.
func backoff(base, maximum time.Duration, failures int) time.Duration {
	const enough = 20 // so that the shift does not overflow
	return min(base<<min(failures-1, enough), maximum)
}

// WithRetryObjects sets when the next retry of an object is due, or zero.
func (s State) WithRetryObjects(at time.Time) State {
	s.retryObjectsAt = at
	return s
}

// Swept reports whether there has been a sweep.
func (s State) Swept() bool { return !s.sweptAt.IsZero() }

// AfterSweep schedules after a sweep of some pages. The jitter, from 0 to 1, shortens the time to the next sweep by up
// to a quarter, so that rings do not all sweep at the same time.
func (s State) AfterSweep(now time.Time, pages int, jitter float64) State {
	period := min(max(time.Duration(pages)*sweepPeriodPerPage, minSweepPeriod), SweepPeriod)
	s.sweptAt, s.sweepPeriod = now, period
	s.sweepAt = now.Add(period - time.Duration(jitter*float64(period)/4))
	return s
}

// AfterFailedSweep schedules another sweep soon, after one that could not list all kinds.
func (s State) AfterFailedSweep(now time.Time) State {
	s.sweptAt = now
	s.sweepAt = now.Add(minSweepPeriod)
	return s
}

// SuspectOutage schedules a sweep soon, after an object was found that the webhook should have assigned.
func (s State) SuspectOutage(now time.Time) State {
	at := now
	if earliest := s.sweptAt.Add(s.sweepPeriod / outageSweepDivisor); earliest.After(now) {
		at = earliest
	}
	if at.Before(s.sweepAt) {
		s.sweepAt = at
	}
	return s
}

// SweepAt schedules a sweep.
func (s State) SweepAt(at time.Time) State {
	s.sweepAt = at
	return s
}

// WithDrains starts or stops the polls of drains.
func (s State) WithDrains(outstanding bool, now time.Time) State {
	switch {
	case !outstanding:
		s.drains = polling{}
	case s.drains.at.IsZero():
		s.drains = polling{at: now.Add(minPollDrainsDelay), interval: minPollDrainsDelay}
	}
	return s
}

// AfterPoll schedules after a poll of the drains, by whether any was acknowledged, and when the next one exceeds its
// timeout, or zero.
func (s State) AfterPoll(acknowledged bool, overdueAt, now time.Time) State {
	interval := min(max(s.drains.interval, minPollDrainsDelay)*2, maxPollDrainsDelay)
	if acknowledged {
		interval = minPollDrainsDelay
	}
	s.drains = polling{at: now.Add(interval), interval: interval}
	if !overdueAt.IsZero() && overdueAt.Before(s.drains.at) {
		s.drains.at = overdueAt
	}
	if least := now.Add(minPollDrainsDelay); s.drains.at.Before(least) {
		s.drains.at = least
	}
	return s
}
