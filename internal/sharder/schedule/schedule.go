package schedule

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Action is something to do about the objects of a ring.
type Action string

// The actions, in the order of their priority among those that are due at the same time.
const (
	// Rescue lists unassigned and orphaned objects.
	Rescue Action = "rescue"
	// Resync lists all objects.
	Resync Action = "resync"
	// PollDrains lists the objects whose shards have been asked to release them.
	PollDrains Action = "pollDrains"
	// RetryObjects writes objects again whose last write failed.
	RetryObjects Action = "retryObjects"
	// RetryKinds lists kinds again whose last list failed.
	RetryKinds Action = "retryKinds"
	// Sweep lists the objects of controlled kinds that have no shard label. Most of them are not the ring's.
	Sweep Action = "sweep"
)

// When to act although nothing seems to have changed.
const (
	// RescuePeriod is how often to look for objects without a live owner. Nobody tells the sharder when the API server
	// cannot reach the webhook.
	RescuePeriod = 30 * time.Second
	// leastPause is the least time between two rescues that take long.
	leastPause = 5 * time.Second
	// SweepPeriod is the longest time between two sweeps, minSweepPeriod the shortest. Between these limits it is
	// sweepPeriodPerPage for each page that the last sweep read, so that sweeps cost the same in any cluster.
	SweepPeriod, sweepPeriodPerPage, minSweepPeriod = time.Hour, 18 * time.Second, time.Minute
	// outageSweepDivisor divides the time to the next sweep while an outage of the webhook is suspected.
	outageSweepDivisor = 12
	// retryKindAfter is when a kind is listed again after a failure, doubled each time up to retryKindMost.
	retryKindAfter, retryKindMost = time.Second, time.Minute
	// pollDrainsAfter is when drains are listed again, doubled up to pollDrainsMost while no shard releases anything.
	pollDrainsAfter, pollDrainsMost = 500 * time.Millisecond, 30 * time.Second
)

// followUps are rescues after a change of the members. They catch objects that another replica of the webhook assigned
// by the ring as it was just before.
var followUps = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second}

// Kind is a resource of the ring.
type Kind = schema.GroupResource

// State is what is known about the past of a ring. The zero value knows nothing. Methods return a new State.
type State struct {
	resyncPeriod time.Duration

	rescueAt, resyncAt time.Time
	followUpsAt        []time.Time
	sweepAt, sweptAt   time.Time
	sweepPeriod        time.Duration
	kinds              map[Kind]failure
	refusedAt          time.Time
	drains             polling
}

// failure is a kind that could not be listed.
type failure struct {
	count int
	at    time.Time // when to try again
}

// polling is how drains are followed.
type polling struct {
	at       time.Time // zero if there are none
	interval time.Duration
}

// Restart begins again after a change of the members or of the spec, with an action that is due now. Kinds that failed
// are tried at once, too, and keep their backoff.
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
		s.drains = polling{at: now.Add(pollDrainsAfter), interval: pollDrainsAfter}
	}
	return s
}

// Next returns what to do next, and when. It is never before now.
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
	consider(RetryObjects, s.refusedAt)
	for _, failed := range s.kinds {
		consider(RetryKinds, failed.at)
	}
	consider(Sweep, s.sweepAt)
	if at.Before(now) {
		at = now
	}
	return action, at
}

// ResyncBefore makes the next resync due at a time, unless it is due earlier.
func (s State) ResyncBefore(at time.Time) State {
	if at.Before(s.resyncAt) {
		s.resyncAt = at
	}
	return s
}

// RescueBefore makes the next rescue due at a time, unless it is due earlier.
func (s State) RescueBefore(at time.Time) State {
	if at.Before(s.rescueAt) {
		s.rescueAt = at
	}
	return s
}

// BackingOff tells whether a kind failed and must be left alone for now.
func (s State) BackingOff(kind Kind, now time.Time) bool { return now.Before(s.kinds[kind].at) }

// Failed tells whether the last list of a kind failed.
func (s State) Failed(kind Kind) bool { return s.kinds[kind].count > 0 }

// Settling tells whether the members changed so lately that children may have been orphaned since they were listed.
func (s State) Settling() bool { return len(s.followUpsAt) > 0 }

// AfterRescue notes the end of a rescue that began at a time. Follow-ups that became due since then are still to come.
func (s State) AfterRescue(began, now time.Time) State {
	s.rescueAt = latest(began.Add(RescuePeriod), now.Add(leastPause))
	s.followUpsAt = slices.DeleteFunc(slices.Clone(s.followUpsAt), func(at time.Time) bool { return !began.Before(at) })
	return s
}

// AfterResync notes the end of a resync, which begins with a rescue.
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

// AfterList notes whether kinds could be listed. Kinds that are not in the map were not tried.
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
		s.kinds[kind] = failure{count: count, at: now.Add(backoff(retryKindAfter, retryKindMost, count))}
	}
	return s
}

// Forget drops the kinds that the ring no longer has.
func (s State) Forget(gone func(Kind) bool) State {
	s.kinds = maps.Clone(s.kinds)
	maps.DeleteFunc(s.kinds, func(kind Kind, _ failure) bool { return gone(kind) })
	return s
}

// backoff is base, doubled with each failure after the first, up to most.
func backoff(base, most time.Duration, failures int) time.Duration {
	const enough = 20 // so that the shift does not overflow
	return min(base<<min(failures-1, enough), most)
}

// WithRefused sets when the next object is due whose write failed; zero if there is none.
func (s State) WithRefused(at time.Time) State {
	s.refusedAt = at
	return s
}

// Swept tells whether there has been a sweep.
func (s State) Swept() bool { return !s.sweptAt.IsZero() }

// AfterSweep notes the end of a sweep that read some pages. The jitter, from 0 to 1, shortens the time to
// the next sweep by up to a quarter, so that rings do not all sweep at the same time.
func (s State) AfterSweep(now time.Time, pages int, jitter float64) State {
	period := min(max(time.Duration(pages)*sweepPeriodPerPage, minSweepPeriod), SweepPeriod)
	s.sweptAt, s.sweepPeriod = now, period
	s.sweepAt = now.Add(period - time.Duration(jitter*float64(period)/4))
	return s
}

// AfterFailedSweep notes the end of a sweep that could not read all kinds. It is repeated soon.
func (s State) AfterFailedSweep(now time.Time) State {
	s.sweptAt = now
	s.sweepAt = now.Add(minSweepPeriod)
	return s
}

// SuspectOutage makes a sweep due soon: an object was found that the webhook should have assigned.
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

// SweepAt makes a sweep due at a time.
func (s State) SweepAt(at time.Time) State {
	s.sweepAt = at
	return s
}

// WithDrains sets whether drains are outstanding that nothing has followed yet.
func (s State) WithDrains(outstanding bool, now time.Time) State {
	switch {
	case !outstanding:
		s.drains = polling{}
	case s.drains.at.IsZero():
		s.drains = polling{at: now.Add(pollDrainsAfter), interval: pollDrainsAfter}
	}
	return s
}

// AfterPoll notes the end of a poll of the drains: whether any was acknowledged, and when the next one exceeds its
// timeout, or zero.
func (s State) AfterPoll(acknowledged bool, overdueAt, now time.Time) State {
	interval := min(max(s.drains.interval, pollDrainsAfter)*2, pollDrainsMost)
	if acknowledged {
		interval = pollDrainsAfter
	}
	s.drains = polling{at: now.Add(interval), interval: interval}
	if !overdueAt.IsZero() && overdueAt.Before(s.drains.at) {
		s.drains.at = overdueAt
	}
	if least := now.Add(pollDrainsAfter); s.drains.at.Before(least) {
		s.drains.at = least
	}
	return s
}
