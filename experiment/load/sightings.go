package load

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

// sightings are what is known of the Websites. It is told of requests, of their answers, and of what a watch shows, in
// whatever order these come.
type sightings struct {
	metrics *metrics

	mu   sync.Mutex
	all  map[client.ObjectKey]*sighting
	live map[string]bool // the instances that hold their Leases
	runs func(instance string) bool
	// anyOwner is set when there are no labels that tell whose a Website is.
	anyOwner bool
}

// sighting is what is known of a Website.
type sighting struct {
	// asked are the requests that were sent and not yet fulfilled: when, and for which generation, 0 if that is not known yet.
	asked []asked
	// ready is the newest generation that was seen to be Ready, and when.
	ready   int64
	readyAt time.Time
	exists  bool
	owner   string
	last    string // the last instance that had it
	labels  string // those of the ring
}

type asked struct {
	at         time.Time
	generation int64
}

func newSightings(m *metrics, runs func(instance string) bool) *sightings {
	return &sightings{metrics: m, all: map[client.ObjectKey]*sighting{}, live: map[string]bool{}, runs: runs}
}

func (s *sightings) of(key client.ObjectKey) *sighting {
	found := s.all[key]
	if found == nil {
		found = &sighting{}
		s.all[key] = found
	}
	return found
}

// expect notes that a request is being sent.
func (s *sightings) expect(key client.ObjectKey, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.of(key)
	if n := len(found.asked); n > 0 && found.asked[n-1].generation == 0 {
		return // it is the same request, sent again
	}
	found.asked = append(found.asked, asked{at: at})
}

// want notes the generation that a request has made.
func (s *sightings) want(key client.ObjectKey, generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.of(key)
	if n := len(found.asked); n > 0 {
		found.asked[n-1].generation = max(generation, 1)
	}
	s.settle(found)
}

// dismiss forgets a request that has failed, if it was the last one.
func (s *sightings) dismiss(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.of(key)
	if n := len(found.asked); n > 0 && found.asked[n-1].generation == 0 {
		found.asked = found.asked[:n-1]
	}
}

// forget is for a Website that is about to be deleted. What it has waited for too long counts.
func (s *sightings) forget(key client.ObjectKey, at time.Time, longer time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.of(key)
	s.observe(found, at, longer)
	found.asked = nil
}

// observe counts what is not fulfilled as if it was now, if it has waited for longer than a time.
func (s *sightings) observe(found *sighting, at time.Time, longer time.Duration) {
	for _, a := range found.asked {
		if waited := at.Sub(a.at); waited > longer {
			s.metrics.ready.Observe(waited.Seconds())
		}
	}
}

// settle notes how long it took for what is fulfilled. The last of several changes that came together fulfils all.
func (s *sightings) settle(found *sighting) {
	for len(found.asked) > 0 && found.asked[0].generation != 0 && found.asked[0].generation <= found.ready {
		s.metrics.ready.Observe(max(0, found.readyAt.Sub(found.asked[0].at).Seconds()))
		found.asked = found.asked[1:]
	}
}

// see is told of a Website as it is now.
func (s *sightings) see(website *webhostingv1alpha1.Website, owner, labels string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.of(client.ObjectKeyFromObject(website))
	if found.last != "" { // the first instance is not a move
		if owner != found.last && owner != "" {
			s.metrics.moves.Inc()
		}
		if labels != found.labels {
			s.metrics.labelWrites.Inc()
		}
	}
	if found.exists, found.owner, found.labels = true, owner, labels; owner != "" {
		found.last = owner
	}
	status := website.Status
	if status.Phase == webhostingv1alpha1.PhaseReady && status.ObservedGeneration > found.ready {
		found.ready, found.readyAt = status.ObservedGeneration, at
		s.settle(found)
	}
}

// gone is told of a Website that is deleted.
func (s *sightings) gone(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// lives is told whether an instance holds its Lease.
func (s *sightings) lives(instance string, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[instance] = is
}

// giveUp counts what is not fulfilled as if it was now, if it has waited for longer than a time: what takes for ever would
// not be counted at all.
func (s *sightings) giveUp(at time.Time, longer time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, found := range s.all {
		s.observe(found, at, longer)
	}
}

// overdue are the Websites that wait for longer than a time.
func (s *sightings) overdue(at time.Time, longer time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	overdue := 0
	for _, found := range s.all {
		if len(found.asked) > 0 && at.Sub(found.asked[0].at) > longer {
			overdue++
		}
	}
	return overdue
}

// waiting are the Websites that are not as they were wanted.
func (s *sightings) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := 0
	for _, found := range s.all {
		if len(found.asked) > 0 {
			waiting++
		}
	}
	return waiting
}

// fulfilled are the Websites that are as they were wanted.
func (s *sightings) fulfilled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	fulfilled := 0
	for _, found := range s.all {
		if found.exists && len(found.asked) == 0 {
			fulfilled++
		}
	}
	return fulfilled
}

// count makes the gauges what they are now.
func (s *sightings) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects, waiting, ownerless := 0, 0, 0
	owned := map[string]int{}
	for _, found := range s.all {
		if len(found.asked) > 0 {
			waiting++
		}
		if !found.exists {
			continue
		}
		objects++
		if s.anyOwner {
			continue
		}
		if owned[found.owner]++; !s.live[found.owner] || !s.runs(found.owner) {
			ownerless++
		}
	}
	s.metrics.objects.Set(float64(objects))
	s.metrics.waiting.Set(float64(waiting))
	s.metrics.ownerless.Set(float64(ownerless))
	for instance := range s.live { // also those that have none any more
		s.metrics.owned.WithLabelValues(instance).Set(float64(owned[instance]))
	}
	for instance, n := range owned {
		if instance != "" {
			s.metrics.owned.WithLabelValues(instance).Set(float64(n))
		}
	}
}
