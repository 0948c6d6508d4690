// Package othersharders tracks the in-process sharders of rings by their leader election Leases.
//
// Two sharders of one ring are safe, because they come to the same decisions and all writes have
// preconditions. They do the work twice, though, so the sharder reports it.
package othersharders

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

// Sharder is an in-process sharder of a ring.
type Sharder struct {
	// Namespace is the namespace of its Lease, and Holder the holder.
	Namespace, Holder string
	// ExpiresAt is when it counts as dead unless it renews its Lease before.
	ExpiresAt time.Time
}

// Tracker tracks the Leases. Its methods may be called from several goroutines.
type Tracker struct {
	clock   clock.PassiveClock
	changed func(ring string)

	mu     sync.Mutex
	leases map[types.NamespacedName]*observedLease
	byRing map[string]map[types.NamespacedName]*observedLease
}

type observedLease struct {
	Sharder
	ring    string
	renewed metav1.MicroTime
}

// New returns a Tracker that calls changed when the active sharder of a ring has changed.
func New(passive clock.PassiveClock, changed func(ring string)) *Tracker {
	return &Tracker{
		clock: passive, changed: changed,
		leases: map[types.NamespacedName]*observedLease{}, byRing: map[string]map[types.NamespacedName]*observedLease{},
	}
}

// Observe records the current version of a Lease. The time of a renewal is when this process observed it,
// because clocks of other processes may differ.
func (t *Tracker) Observe(lease *coordinationv1.Lease) {
	now := &observedLease{
		ring:    lease.Labels[shardingv1alpha1.LabelSharder],
		renewed: ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}),
		Sharder: Sharder{Namespace: lease.Namespace, Holder: ptr.Deref(lease.Spec.HolderIdentity, "")},
	}
	duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, int32(membership.DefaultDuration/time.Second))) * time.Second
	duration = min(duration, membership.MaxDuration)
	key := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
	t.mu.Lock()
	before := t.leases[key]
	now.ExpiresAt = t.clock.Now().Add(duration)
	if before != nil && before.renewed.Equal(&now.renewed) && before.Holder == now.Holder {
		now.ExpiresAt = before.ExpiresAt
	}
	t.replace(key, before, now)
	t.mu.Unlock()
	if before != nil && before.ring != now.ring {
		t.changed(before.ring)
	}
	if before == nil || before.ring != now.ring || before.Holder != now.Holder || !before.ExpiresAt.After(t.clock.Now()) {
		t.changed(now.ring)
	}
}

// Forget removes a deleted Lease.
func (t *Tracker) Forget(key types.NamespacedName) {
	t.mu.Lock()
	gone := t.leases[key]
	t.replace(key, gone, nil)
	t.mu.Unlock()
	if gone != nil {
		t.changed(gone.ring)
	}
}

// replace replaces the record of one Lease. Either may be nil.
func (t *Tracker) replace(key types.NamespacedName, before, after *observedLease) {
	delete(t.leases, key)
	if before != nil {
		if delete(t.byRing[before.ring], key); len(t.byRing[before.ring]) == 0 {
			delete(t.byRing, before.ring)
		}
	}
	if after == nil {
		return
	}
	t.leases[key] = after
	if t.byRing[after.ring] == nil {
		t.byRing[after.ring] = map[types.NamespacedName]*observedLease{}
	}
	t.byRing[after.ring][key] = after
}

// Active returns a sharder of a ring whose Lease has not expired, in one of the namespaces for which accepts returns true,
// or nil. A Lease in another namespace must not keep the sharder from its work.
func (t *Tracker) Active(ring string, accepts func(namespace string) bool) *Sharder {
	t.mu.Lock()
	defer t.mu.Unlock()
	var alive *Sharder
	for _, known := range t.byRing[ring] {
		if known.Holder != "" && known.ExpiresAt.After(t.clock.Now()) && accepts(known.Namespace) {
			if alive == nil || known.Namespace < alive.Namespace {
				sharder := known.Sharder
				alive = &sharder
			}
		}
	}
	return alive
}
