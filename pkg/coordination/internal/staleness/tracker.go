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
func (b *Tracker) Due(now time.Time, interval time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.next) {
		return false
	}
	b.next = now.Add(interval)
	return true
}

// Observe records the versions of all existing objects, by name, from a read that was sent and answered at these times. It returns how
// long each object has not changed.
func (b *Tracker) Observe(sent, answered time.Time, versions map[string]string) map[string]time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	observations := make(map[string]observation, len(versions))
	unchanged := make(map[string]time.Duration, len(versions))
	for name, version := range versions {
		is := observation{version: version, since: answered}
		if was, known := b.observations[name]; known && was.version == version {
			is.since = was.since
		}
		observations[name] = is
		unchanged[name] = max(0, sent.Sub(is.since))
	}
	b.observations = observations
	return unchanged
}

// LogError logs the error of an observation, unless it equals the last one. The process continues: other processes observe too.
func (b *Tracker) LogError(ctx context.Context, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.lastError
	b.lastError = ""
	if err == nil {
		return
	}
	if b.lastError = err.Error(); b.lastError != last {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to end the sessions of dead processes")
	}
}
