package moves

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

const (
	// minRetryObjectDelay and maxRetryObjectDelay bound the exponential backoff of an object.
	minRetryObjectDelay, maxRetryObjectDelay = time.Second, 2 * time.Minute
	// maxFailedWrites is the number of objects of a kind that are retried one by one. The next pass tries the others, up
	// to some failures in a row.
	maxFailedWrites = 256
	// maxRetriesAtOnce is the maximum number of objects of one retry.
	maxRetriesAtOnce = 20
)

// failedWrites are the objects of a ring whose last write failed, for example because an admission policy refused it,
// the object violates a schema, or other clients keep changing it. Each is retried with backoff.
type failedWrites struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	kinds map[schema.GroupResource]map[string]*failedWrite // by full name
	// resume has, for each kind of which a pass skipped objects, the name of the first one.
	resume map[schema.GroupResource]string
	passes int
}

// failedWrite is an object whose last write failed.
type failedWrite struct {
	resource *catalog.Resource
	object   object
	failures int
	at       time.Time // when to try again
	err      error
}

func newFailedWrites(passive clock.PassiveClock) *failedWrites {
	return &failedWrites{clock: passive, kinds: map[schema.GroupResource]map[string]*failedWrite{}, resume: map[schema.GroupResource]string{}}
}

// resumePoint returns the first object of a kind that the last pass skipped, or "", and how many earlier objects to
// skip before one is tried, which differs from pass to pass.
func (f *failedWrites) resumePoint(kind schema.GroupResource) (name string, skip int) {
	const step, maximum = 37, 256 // without a common divisor
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passes++
	return f.resume[kind], f.passes * step % maximum
}

// resumeLater records the first object of a kind that a pass skipped, or "" if it tried all.
func (f *failedWrites) resumeLater(kind schema.GroupResource, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name == "" {
		delete(f.resume, kind)
	} else {
		f.resume[kind] = name
	}
}

// has reports whether the last write of an object failed.
func (f *failedWrites) has(kind schema.GroupResource, o object) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kinds[kind][o.fullName()] != nil
}

// backingOff reports whether the last write of an object failed, it has not changed since, and its retry is not due.
func (f *failedWrites) backingOff(kind schema.GroupResource, o object) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.kinds[kind][o.fullName()]
	return known != nil && known.object.uid == o.uid && known.object.version == o.version && f.clock.Now().Before(known.at)
}

// add records a failure and reports whether the object had failed before.
func (f *failedWrites) add(resource *catalog.Resource, o object, err error) (repeated bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := resource.Resource.GroupResource()
	known := f.kinds[kind][o.fullName()]
	if known == nil {
		if len(f.kinds[kind]) >= maxFailedWrites {
			return false
		}
		if f.kinds[kind] == nil {
			f.kinds[kind] = map[string]*failedWrite{}
		}
		known = &failedWrite{}
		f.kinds[kind][o.fullName()] = known
	}
	known.resource, known.object, known.err = resource, o, err
	known.failures++
	known.at = f.clock.Now().Add(min(minRetryObjectDelay<<min(known.failures-1, 10), maxRetryObjectDelay))
	return known.failures > 1
}

// remove removes an object that was written. The cause of its failure may be gone for other objects of its kind as well,
// so some of these are due now.
func (f *failedWrites) remove(kind schema.GroupResource, o object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kinds[kind][o.fullName()] == nil {
		return
	}
	delete(f.kinds[kind], o.fullName())
	due := 0
	for _, other := range f.kinds[kind] {
		if due++; due > maxRetriesAtOnce {
			return
		}
		other.at = f.clock.Now()
	}
}

// forget removes an object that needs no write.
func (f *failedWrites) forget(kind schema.GroupResource, o object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.kinds[kind], o.fullName())
}

// keepKinds removes the objects of all other kinds.
func (f *failedWrites) keepKinds(has func(schema.GroupResource) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind := range f.kinds {
		if !has(kind) {
			delete(f.kinds, kind)
			delete(f.resume, kind)
		}
	}
}

// next returns when the first retry is due, or zero.
func (f *failedWrites) next() (at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, kind := range f.kinds {
		for _, known := range kind {
			if at.IsZero() || known.at.Before(at) {
				at = known.at
			}
		}
	}
	return at
}

// claim returns objects to retry, ordered by when they became due. They are not due again before their writes end or
// time out.
func (f *failedWrites) claim() []failedWrite {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	var due []*failedWrite
	for _, kind := range f.kinds {
		for _, known := range kind {
			if !known.at.After(now) {
				due = append(due, known)
			}
		}
	}
	slices.SortFunc(due, func(a, b *failedWrite) int { return a.at.Compare(b.at) })
	claimed := make([]failedWrite, 0, maxRetriesAtOnce)
	for _, known := range due[:min(len(due), maxRetriesAtOnce)] {
		known.at = now.Add(writeTimeout + minRetryObjectDelay)
		claimed = append(claimed, *known)
	}
	return claimed
}

// errs summarizes the failures of each kind.
func (f *failedWrites) errs() map[schema.GroupResource]error {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := map[schema.GroupResource]error{}
	for kind, objects := range f.kinds {
		var example *failedWrite
		for _, known := range objects {
			if example == nil || known.object.fullName() < example.object.fullName() {
				example = known
			}
		}
		switch {
		case example == nil:
		case len(objects) == 1:
			errs[kind] = fmt.Errorf("%s %s cannot be written: %w", kind, example.object.fullName(), example.err)
		default:
			errs[kind] = fmt.Errorf("%d %s cannot be written, among them %s: %w", len(objects), kind, example.object.fullName(), example.err)
		}
	}
	return errs
}
