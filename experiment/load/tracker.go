package load

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

// tracker follows each Website from the due time of a change until that change is Ready, and follows its owner. Due times,
// responses and watch events may arrive in any order.
type tracker struct {
	metrics *metrics

	mu       sync.Mutex
	websites map[client.ObjectKey]*website
	live     map[string]bool // by instance: whether it holds its Lease
	runs     func(instance string) bool
	// unlabelled is set when Websites have no shard label: one instance owns all of them.
	unlabelled bool
}

// website is the state of one Website.
type website struct {
	// pending are the changes that are not Ready yet, in order.
	pending []change
	// ready is the newest generation that was observed to be Ready, at readyAt.
	ready     int64
	readyAt   time.Time
	exists    bool
	owner     string
	lastOwner string // the last owner that was not empty
	labels    string // the shard and the drain label
}

// change is a change that was requested. Its generation is 0 until the API server has responded.
type change struct {
	due        time.Time
	generation int64
}

func newTracker(m *metrics, runs func(instance string) bool) *tracker {
	return &tracker{metrics: m, websites: map[client.ObjectKey]*website{}, live: map[string]bool{}, runs: runs}
}

func (t *tracker) get(key client.ObjectKey) *website {
	w := t.websites[key]
	if w == nil {
		w = &website{}
		t.websites[key] = w
	}
	return w
}

// request records that a change was due.
func (t *tracker) request(key client.ObjectKey, due time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.get(key)
	w.pending = append(w.pending, change{due: due})
}

// respond records the generation that the last requested change has created.
func (t *tracker) respond(key client.ObjectKey, generation int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.get(key)
	if n := len(w.pending); n > 0 {
		w.pending[n-1].generation = max(generation, 1)
	}
	t.complete(w)
}

// cancel removes the last requested change, which has failed.
func (t *tracker) cancel(key client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.get(key)
	if n := len(w.pending); n > 0 && w.pending[n-1].generation == 0 {
		w.pending = w.pending[:n-1]
	}
}

// deleting stops waiting for a Website that is about to be deleted. Changes that are overdue already count.
func (t *tracker) deleting(key client.ObjectKey, at time.Time, limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.get(key)
	t.countOverdue(w, at, limit)
	w.pending = nil
}

// countOverdue counts the changes that have waited for longer than the limit as if they became Ready now.
func (t *tracker) countOverdue(w *website, at time.Time, limit time.Duration) {
	for _, c := range w.pending {
		if waited := at.Sub(c.due); waited > limit {
			t.metrics.ready.Observe(waited.Seconds())
		}
	}
}

// complete observes the duration of each change whose generation, or a later one, is Ready.
func (t *tracker) complete(w *website) {
	for len(w.pending) > 0 && w.pending[0].generation != 0 && w.pending[0].generation <= w.ready {
		t.metrics.ready.Observe(max(0, w.readyAt.Sub(w.pending[0].due).Seconds()))
		w.pending = w.pending[1:]
	}
}

// observe records a Website as a watch event shows it.
func (t *tracker) observe(found *webhostingv1alpha1.Website, owner, labels string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.get(client.ObjectKeyFromObject(found))
	if w.lastOwner != "" { // the first assignment is not a move
		if owner != w.lastOwner && owner != "" {
			t.metrics.moves.Inc()
		}
		if labels != w.labels {
			t.metrics.labelWrites.Inc()
		}
	}
	if w.exists, w.owner, w.labels = true, owner, labels; owner != "" {
		w.lastOwner = owner
	}
	status := found.Status
	if status.Phase == webhostingv1alpha1.PhaseReady && status.ObservedGeneration > w.ready {
		w.ready, w.readyAt = status.ObservedGeneration, at
		t.complete(w)
	}
}

// observeDeletion records that a Website is gone.
func (t *tracker) observeDeletion(key client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.websites, key)
}

// observeLease records whether an instance holds its Lease.
func (t *tracker) observeLease(instance string, holding bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live[instance] = holding
}

// finish counts the changes that have waited for longer than the limit as if they became Ready now: otherwise a change that
// never becomes Ready would not count at all.
func (t *tracker) finish(at time.Time, limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.websites {
		t.countOverdue(w, at, limit)
	}
}

// overdue returns the number of Websites with a change that has waited for longer than the limit.
func (t *tracker) overdue(at time.Time, limit time.Duration) int {
	return t.count(func(w *website) bool { return len(w.pending) > 0 && at.Sub(w.pending[0].due) > limit })
}

// waiting returns the number of Websites whose last change is not Ready yet.
func (t *tracker) waiting() int {
	return t.count(func(w *website) bool { return len(w.pending) > 0 })
}

// readyCount returns the number of existing Websites whose changes are all Ready.
func (t *tracker) readyCount() int {
	return t.count(func(w *website) bool { return w.exists && len(w.pending) == 0 })
}

func (t *tracker) count(matches func(*website) bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, w := range t.websites {
		if matches(w) {
			n++
		}
	}
	return n
}

// ownedBy returns the names of the Websites of an instance as namespace/name.
func (t *tracker) ownedBy(instance string) []string {
	return t.names(func(w *website) bool { return t.unlabelled || w.owner == instance })
}

// names returns the names of the existing Websites that match, as namespace/name.
func (t *tracker) names(matches func(*website) bool) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names []string
	for key, w := range t.websites {
		if w.exists && matches(w) {
			names = append(names, key.String())
		}
	}
	return names
}

// updateGauges sets the gauges to the current state.
func (t *tracker) updateGauges() {
	t.mu.Lock()
	defer t.mu.Unlock()
	objects, waiting, ownerless := 0, 0, 0
	owned := map[string]int{}
	for _, w := range t.websites {
		if len(w.pending) > 0 {
			waiting++
		}
		if !w.exists {
			continue
		}
		objects++
		if t.unlabelled {
			continue
		}
		if owned[w.owner]++; !t.live[w.owner] || !t.runs(w.owner) {
			ownerless++
		}
	}
	t.metrics.objects.Set(float64(objects))
	t.metrics.waiting.Set(float64(waiting))
	t.metrics.ownerless.Set(float64(ownerless))
	for instance := range t.live { // including those that no longer own any
		t.metrics.owned.WithLabelValues(instance).Set(float64(owned[instance]))
	}
	for instance, n := range owned {
		if instance != "" {
			t.metrics.owned.WithLabelValues(instance).Set(float64(n))
		}
	}
}
