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
	// retryObjectAfter is when an object is written again after a failure, doubled each time up to retryObjectMost.
	retryObjectAfter, retryObjectMost = time.Second, 2 * time.Minute
	// rememberedRefusals is how many objects of a kind are retried alone. The others are tried again with the next pass,
	// which gives up after some failures in a row.
	rememberedRefusals = 256
	// retriesAtOnce is how many objects one retry writes.
	retriesAtOnce = 20
)

// refusals are the objects of a ring whose last write failed: an admission policy refused it, the object violates a schema
// that was tightened, or others write it all the time. Each is retried alone, with a backoff.
type refusals struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	kinds map[schema.GroupResource]map[string]*refusal // by full name
	// resume has the kinds of which a pass could not try all objects, with the first one that it did not.
	resume map[schema.GroupResource]string
	passes int
}

// refusal is one of them.
type refusal struct {
	resource *catalog.Resource
	object   object
	failures int
	at       time.Time // when to try again
	err      error
}

func newRefusals(passive clock.PassiveClock) *refusals {
	return &refusals{clock: passive, kinds: map[schema.GroupResource]map[string]*refusal{}, resume: map[schema.GroupResource]string{}}
}

// resumeAt returns the first object of a kind that the last pass did not try, or "", and how many to leave out before one of
// those that come earlier is tried: other ones in each pass.
func (r *refusals) resumeAt(kind schema.GroupResource) (name string, leaveOut int) {
	const step, most = 37, 256 // without a common divisor
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passes++
	return r.resume[kind], r.passes * step % most
}

// resumeLater notes the first object of a kind that a pass did not try; "" if it tried all.
func (r *refusals) resumeLater(kind schema.GroupResource, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" {
		delete(r.resume, kind)
	} else {
		r.resume[kind] = name
	}
}

// knows tells whether an object failed before.
func (r *refusals) knows(kind schema.GroupResource, o object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kinds[kind][o.fullName()] != nil
}

// backingOff tells whether an object failed and has not changed since, and is not due yet.
func (r *refusals) backingOff(kind schema.GroupResource, o object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.kinds[kind][o.fullName()]
	return known != nil && known.object.uid == o.uid && known.object.version == o.version && r.clock.Now().Before(known.at)
}

// add notes a failure and tells whether it is not the object's first.
func (r *refusals) add(resource *catalog.Resource, o object, err error) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind := resource.Resource.GroupResource()
	known := r.kinds[kind][o.fullName()]
	if known == nil {
		if len(r.kinds[kind]) >= rememberedRefusals {
			return false
		}
		if r.kinds[kind] == nil {
			r.kinds[kind] = map[string]*refusal{}
		}
		known = &refusal{}
		r.kinds[kind][o.fullName()] = known
	}
	known.resource, known.object, known.err = resource, o, err
	known.failures++
	known.at = r.clock.Now().Add(min(retryObjectAfter<<min(known.failures-1, 10), retryObjectMost))
	return known.failures > 1
}

// remove forgets an object that could be written. What kept it from being written may be over for the others of its kind,
// too, so some of these are due now.
func (r *refusals) remove(kind schema.GroupResource, o object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds[kind][o.fullName()] == nil {
		return
	}
	delete(r.kinds[kind], o.fullName())
	due := 0
	for _, other := range r.kinds[kind] {
		if due++; due > retriesAtOnce {
			return
		}
		other.at = r.clock.Now()
	}
}

// forget drops an object about which there is nothing to do any more.
func (r *refusals) forget(kind schema.GroupResource, o object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kinds[kind], o.fullName())
}

// keepKinds drops the objects of all other kinds.
func (r *refusals) keepKinds(has func(schema.GroupResource) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind := range r.kinds {
		if !has(kind) {
			delete(r.kinds, kind)
			delete(r.resume, kind)
		}
	}
}

// next is when the first object is due, or zero.
func (r *refusals) next() (at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range r.kinds {
		for _, known := range kind {
			if at.IsZero() || known.at.Before(at) {
				at = known.at
			}
		}
	}
	return at
}

// claim returns objects to try again, those first that have waited longest. They are not due again before their writes
// have been answered, or have timed out.
func (r *refusals) claim() []refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	var due []*refusal
	for _, kind := range r.kinds {
		for _, known := range kind {
			if !known.at.After(now) {
				due = append(due, known)
			}
		}
	}
	slices.SortFunc(due, func(a, b *refusal) int { return a.at.Compare(b.at) })
	claimed := make([]refusal, 0, retriesAtOnce)
	for _, known := range due[:min(len(due), retriesAtOnce)] {
		known.at = now.Add(writeTimeout + retryObjectAfter)
		claimed = append(claimed, *known)
	}
	return claimed
}

// err sums the failures up, kind by kind.
func (r *refusals) errs() map[schema.GroupResource]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := map[schema.GroupResource]error{}
	for kind, objects := range r.kinds {
		var example *refusal
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
