// Package members knows the shards of all rings, as this process has seen their Leases.
//
// It promises that a ring is calculated only when its set of shards has changed, that everybody
// who asks gets the same one, and that asking for it waits for nobody: it is on the path of users'
// requests.
package members

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

// Source knows the shards of rings. The ring is nil if it is not known; the channel is closed when it
// has changed.
type Source interface {
	Ring(name string) (*ring.Ring, <-chan struct{})
}

// Tracker keeps what was seen of the Leases. Its methods may be called from several goroutines.
type Tracker struct {
	clock clock.PassiveClock
	// calculated is told each time that a ring was calculated.
	calculated func(ring string)
	// published is what Ring answers with, without waiting for a calculation that is under way.
	published atomic.Pointer[map[string]view]

	mu     sync.Mutex
	leases map[types.NamespacedName]*seen
	rings  map[string]*state
}

// seen is a Lease, with what identifies its last renewal.
type seen struct {
	membership.Lease
	ring    string
	renewal renewal
}

// renewal changes with each write of a Lease's holder.
type renewal struct {
	holder            string
	acquired, renewed metav1.MicroTime
	transitions       int32
}

// state is a ring that was declared.
type state struct {
	namespaces []string // whose Leases count; none means all
	view
}

// view is a ring as others see it.
type view struct {
	current *ring.Ring
	changed chan struct{} // closed with the next change of current
	since   time.Time     // when current became so
}

// New returns a Tracker that knows nothing yet. The function is told of each calculation.
func New(passive clock.PassiveClock, calculated func(ring string)) *Tracker {
	t := &Tracker{
		clock:      passive,
		calculated: calculated,
		leases:     map[types.NamespacedName]*seen{},
		rings:      map[string]*state{},
	}
	t.publish()
	return t
}

// publish shows the rings as they are now.
func (t *Tracker) publish() {
	views := make(map[string]view, len(t.rings))
	for name, known := range t.rings {
		views[name] = known.view
	}
	t.published.Store(&views)
}

// Declare makes a ring known, or its namespaces.
func (t *Tracker) Declare(name string, namespaces []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.rings[name]
	if known == nil {
		known = &state{view: view{current: &ring.Ring{}, changed: make(chan struct{})}}
		t.rings[name] = known
		t.publish()
	}
	known.namespaces = slices.Clone(namespaces)
	t.recalculate(name)
}

// Drop forgets a ring. Who waits for a change of it is told.
func (t *Tracker) Drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.rings[name]; known != nil {
		delete(t.rings, name)
		t.publish()
		close(known.changed)
	}
}

// Observe notes what a Lease looks like now. The time of its renewal is this process's time of
// seeing it, whatever the Lease says.
func (t *Tracker) Observe(lease *coordinationv1.Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
	before := t.leases[key]
	now := read(lease)
	if before != nil && before.renewal == now.renewal {
		now.Seen = before.Seen
	} else {
		now.Seen = t.clock.Now()
	}
	t.leases[key] = now
	if before != nil && before.ring != now.ring {
		t.recalculate(before.ring)
	}
	if before == nil || before.ring != now.ring || before.Held() != now.Held() || before.Leaving != now.Leaving {
		t.recalculate(now.ring)
	}
}

func read(lease *coordinationv1.Lease) *seen {
	spec := &lease.Spec
	result := &seen{ring: lease.Labels[shardingv1alpha1.LabelControllerRing]}
	result.Shard = lease.Name
	result.Holder = ptr.Deref(spec.HolderIdentity, "")
	_, result.Leaving = lease.Annotations[shardingv1alpha1.AnnotationLeaving]
	result.Complete = spec.AcquireTime != nil && spec.RenewTime != nil && ptr.Deref(spec.LeaseDurationSeconds, 0) > 0
	result.Duration = time.Duration(cmp.Or(ptr.Deref(spec.LeaseDurationSeconds, 0), int32(membership.DefaultDuration/time.Second))) * time.Second
	result.renewal = renewal{result.Holder, ptr.Deref(spec.AcquireTime, metav1.MicroTime{}), ptr.Deref(spec.RenewTime, metav1.MicroTime{}), ptr.Deref(spec.LeaseTransitions, 0)}
	return result
}

// Forget notes that a Lease is gone.
func (t *Tracker) Forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gone := t.leases[key]; gone != nil {
		delete(t.leases, key)
		t.recalculate(gone.ring)
	}
}

// recalculate makes the ring anew if its set of members has changed.
func (t *Tracker) recalculate(name string) {
	known := t.rings[name]
	if known == nil {
		return
	}
	members := map[string]bool{} // and whether they are leaving
	for _, lease := range t.peers(name, known) {
		if lease.Held() {
			members[lease.Shard] = lease.Leaving
		}
	}
	var shards, leaving []string
	for member, leaves := range members {
		if leaves {
			leaving = append(leaving, member)
		} else {
			shards = append(shards, member)
		}
	}
	if known.current.Consists(shards, leaving) {
		return
	}
	before := known.changed
	known.view = view{current: ring.New(shards, leaving...), changed: make(chan struct{}), since: t.clock.Now()}
	t.calculated(name)
	t.publish()
	close(before) // whoever hears of it finds the new ring
}

// admits tells whether a Lease may join: where it is, and whether its name can be a label's value.
// One that may not is ignored here, where it harms nobody, and told of by the lease controller.
func (s *state) admits(key types.NamespacedName) bool {
	return len(key.Name) <= shardingv1alpha1.MaxNameLength &&
		(len(s.namespaces) == 0 || slices.Contains(s.namespaces, key.Namespace))
}

// Holders returns those of some Leases that make their shards members of a ring, whether they were observed
// or not.
func (t *Tracker) Holders(name string, leases []coordinationv1.Lease) map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	holders := map[string]bool{}
	known := t.rings[name]
	for i := range leases {
		key := types.NamespacedName{Namespace: leases[i].Namespace, Name: leases[i].Name}
		if found := read(&leases[i]); known != nil && found.ring == name && found.Held() && known.admits(key) {
			holders[key.Name] = true
		}
	}
	return holders
}

// Ring returns a ring as it is now, and a channel that is closed when it has changed. The ring is
// nil if it was not declared.
func (t *Tracker) Ring(name string) (*ring.Ring, <-chan struct{}) {
	shown := (*t.published.Load())[name]
	return shown.current, shown.changed
}

// Since returns when the members of a ring have changed last, as far as this process has seen.
func (t *Tracker) Since(name string) time.Time { return (*t.published.Load())[name].since }

// Shard is a shard of a ring at one moment.
type Shard struct {
	Name, Namespace string
	State           membership.State
	// Leaving is whether it has said so: it gets no more objects.
	Leaving bool
	// Again is when to look at the state again, if no Lease changes before.
	Again time.Time
}

// Shards returns all shards of a ring, dead ones included, in order.
func (t *Tracker) Shards(name string) []Shard {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.rings[name]
	if known == nil {
		return nil
	}
	peers := t.peers(name, known)
	shards := make([]Shard, 0, len(peers))
	for key, lease := range peers {
		shards = append(shards, t.shard(key, lease, peers))
	}
	slices.SortFunc(shards, func(a, b Shard) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	return shards
}

// Shard returns the shard that a Lease belongs to, if its ring is declared and takes it.
func (t *Tracker) Shard(key types.NamespacedName) (shard Shard, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lease := t.leases[key]
	if lease == nil {
		return Shard{}, false
	}
	known := t.rings[lease.ring]
	if known == nil {
		return Shard{}, false
	}
	peers := t.peers(lease.ring, known)
	if _, counts := peers[key]; !counts {
		return Shard{}, false
	}
	return t.shard(key, lease.Lease, peers), true
}

// peers are the Leases of a ring that count. Of two in different namespaces with one name only one does:
// both shards would have the same label, and work on the same objects.
func (t *Tracker) peers(name string, known *state) map[types.NamespacedName]membership.Lease {
	peers, chosen := map[types.NamespacedName]membership.Lease{}, map[string]types.NamespacedName{}
	for key, lease := range t.leases {
		if lease.ring != name || !known.admits(key) {
			continue
		}
		if other, twice := chosen[key.Name]; twice {
			if !precedes(key, lease.Lease, other, peers[other]) {
				continue
			}
			delete(peers, other)
		}
		chosen[key.Name] = key
		peers[key] = lease.Lease
	}
	return peers
}

// precedes tells which of two Leases of one name is the member: one that is held, and of those the
// one in the first namespace, which is the same for every replica.
func precedes(key types.NamespacedName, lease membership.Lease, other types.NamespacedName, than membership.Lease) bool {
	if lease.Held() != than.Held() {
		return lease.Held()
	}
	return key.Namespace < other.Namespace
}

// Namesake returns the namespace of the Lease that keeps another one of the same name from being a shard.
func (t *Tracker) Namesake(key types.NamespacedName) (namespace string, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lease := t.leases[key]
	if lease == nil || t.rings[lease.ring] == nil {
		return "", false
	}
	for other := range t.peers(lease.ring, t.rings[lease.ring]) {
		if other.Name == key.Name && other.Namespace != key.Namespace {
			return other.Namespace, true
		}
	}
	return "", false
}

func (t *Tracker) shard(key types.NamespacedName, lease membership.Lease, peers map[types.NamespacedName]membership.Lease) Shard {
	state, again := membership.StateOf(lease, slices.Collect(maps.Values(peers)), t.clock.Now())
	return Shard{Name: key.Name, Namespace: key.Namespace, State: state, Leaving: lease.Leaving, Again: again}
}
