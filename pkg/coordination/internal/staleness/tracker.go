// Package staleness measures how long objects have not changed, with the clock of this process.
//
// It guarantees that a measured duration is never too long: it counts from the end of the first read that returned a version to the
// beginning of the last one. It uses no times that other processes have written.
package staleness

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// A process observes several times within the shortest relevant duration, within limits.
const (
	observationsPerDuration = 10
	minInterval             = 200 * time.Millisecond
	maxInterval             = 2 * time.Second
)

// Interval returns the delay between two observations, for all relevant durations.
func Interval(durations ...time.Duration) time.Duration {
	interval := maxInterval
	for _, duration := range durations {
		interval = min(interval, duration/observationsPerDuration)
	}
	return max(interval, minInterval)
}

// Tracker records observed versions. Its methods are safe for concurrent use.
type Tracker struct {
	mu           sync.Mutex
	observations map[string]observation // by object name
	next         time.Time
	// lastError is the last logged error.
	lastError string
}

// observation is a version, and since when it was observed.
type observation struct {
	version string
	since   time.Time
}

// Due reports whether the next observation is due. If so, the one after that is due only after the interval.
func (t *Tracker) Due(now time.Time, interval time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.next) {
		return false
	}
	t.next = now.Add(interval)
	return true
}

// Observe records the versions of all existing objects, by name, from a read that was sent and answered at these times. It returns how
// long each object has not changed.
func (t *Tracker) Observe(sent, answered time.Time, versions map[string]string) map[string]time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	observations := make(map[string]observation, len(versions))
	unchanged := make(map[string]time.Duration, len(versions))
	for name, version := range versions {
		current := observation{version: version, since: answered}
		if was, known := t.observations[name]; known && was.version == version {
			current.since = was.since
		}
		observations[name] = current
		unchanged[name] = max(0, sent.Sub(current.since))
	}
	t.observations = observations
	return unchanged
}

// LogError logs the error of an observation, unless it equals the last one. The process continues: other processes observe too.
func (t *Tracker) LogError(ctx context.Context, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.lastError
	t.lastError = ""
	if err == nil {
		return
	}
	if t.lastError = err.Error(); t.lastError != last {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to end the sessions of dead processes")
	}
}
