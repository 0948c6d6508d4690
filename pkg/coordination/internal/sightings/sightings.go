// Package sightings tells for how long something has surely not changed, on this process's clock.
//
// It promises never to say too much: it counts from the end of the look that first showed something as it is to the
// beginning of the last one that showed it so. It reads no times that others have written.
package sightings

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// A process looks again when this part of the shortest duration that matters has passed, and at least and at most so
// often.
const (
	looks    = 10
	minPause = 200 * time.Millisecond
	maxPause = 2 * time.Second
)

// Pause is how long to wait between two looks. None of the durations has to be there.
func Pause(durations ...time.Duration) time.Duration {
	pause := maxPause
	for _, duration := range durations {
		pause = min(pause, duration/looks)
	}
	return max(pause, minPause)
}

// Book notes what was seen. Its methods may be called from several goroutines.
type Book struct {
	mu   sync.Mutex
	seen map[string]sighting // by name
	next time.Time
	// told is the error that was logged last.
	told string
}

// sighting is what something was since it was first seen so.
type sighting struct {
	version string
	since   time.Time
}

// Due tells whether it is time to look, and takes the turn: it is not due for others before the pause is over.
func (b *Book) Due(now time.Time, pause time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.next) {
		return false
	}
	b.next = now.Add(pause)
	return true
}

// Note notes the versions of all things that there are, by name, as a look has shown them that was asked for and
// answered at these times. It returns for how long each has not changed.
func (b *Book) Note(asked, answered time.Time, versions map[string]string) map[string]time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := make(map[string]sighting, len(versions))
	unchanged := make(map[string]time.Duration, len(versions))
	for name, version := range versions {
		is := sighting{version: version, since: answered}
		if was, known := b.seen[name]; known && was.version == version {
			is.since = was.since
		}
		seen[name] = is
		unchanged[name] = max(0, asked.Sub(is.since))
	}
	b.seen = seen
	return unchanged
}

// Tell logs why a look came to nothing, once for as long as the reason stays the same. It is no reason for anybody to
// stop: others look as well.
func (b *Book) Tell(ctx context.Context, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.told
	b.told = ""
	if err == nil {
		return
	}
	if b.told = err.Error(); b.told != said {
		logr.FromContextOrDiscard(ctx).Error(err, "Sessions whose process has died cannot be ended")
	}
}
