// Package rivals knows who else spreads the objects of a ring: instances of an operator that are the sharder
// of their ring themselves, as their Leases say.
//
// Two sharders do each other no harm, because they come to the same decisions and all writes have
// preconditions. But nobody means it to stay so, and that is why it is told.
package rivals

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

// Rival is another sharder of a ring.
type Rival struct {
	// Namespace is where its Lease is, and Holder is who holds that.
	Namespace, Holder string
	// Until is when it is to be taken for dead if it does not renew before.
	Until time.Time
}

// Tracker keeps what was seen of the Leases. Its methods may be called from several goroutines.
type Tracker struct {
	clock   clock.PassiveClock
	changed func(ring string)

	mu     sync.Mutex
	found  map[types.NamespacedName]*seen
	byRing map[string]map[types.NamespacedName]*seen
}

type seen struct {
	Rival
	ring    string
	renewed metav1.MicroTime
}

// New returns a Tracker. The function is told when a ring has another rival than before, or none.
func New(passive clock.PassiveClock, changed func(ring string)) *Tracker {
	return &Tracker{
		clock: passive, changed: changed,
		found: map[types.NamespacedName]*seen{}, byRing: map[string]map[types.NamespacedName]*seen{},
	}
}

// Observe notes what a Lease looks like now. As for all Leases, it counts when this process saw it
// renewed, whatever the Lease says.
func (t *Tracker) Observe(lease *coordinationv1.Lease) {
	now := &seen{
		ring:    lease.Labels[shardingv1alpha1.LabelSharder],
		renewed: ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}),
		Rival:   Rival{Namespace: lease.Namespace, Holder: ptr.Deref(lease.Spec.HolderIdentity, "")},
	}
	duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, int32(membership.DefaultDuration/time.Second))) * time.Second
	duration = min(duration, membership.MaxDuration)
	key := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
	t.mu.Lock()
	before := t.found[key]
	now.Until = t.clock.Now().Add(duration)
	if before != nil && before.renewed.Equal(&now.renewed) && before.Holder == now.Holder {
		now.Until = before.Until
	}
	t.replace(key, before, now)
	t.mu.Unlock()
	if before != nil && before.ring != now.ring {
		t.changed(before.ring)
	}
	if before == nil || before.ring != now.ring || before.Holder != now.Holder || !before.Until.After(t.clock.Now()) {
		t.changed(now.ring)
	}
}

// Forget notes that a Lease is gone.
func (t *Tracker) Forget(key types.NamespacedName) {
	t.mu.Lock()
	gone := t.found[key]
	t.replace(key, gone, nil)
	t.mu.Unlock()
	if gone != nil {
		t.changed(gone.ring)
	}
}

// replace changes what is known of one Lease. Either may be nil.
func (t *Tracker) replace(key types.NamespacedName, before, after *seen) {
	delete(t.found, key)
	if before != nil {
		if delete(t.byRing[before.ring], key); len(t.byRing[before.ring]) == 0 {
			delete(t.byRing, before.ring)
		}
	}
	if after == nil {
		return
	}
	t.found[key] = after
	if t.byRing[after.ring] == nil {
		t.byRing[after.ring] = map[types.NamespacedName]*seen{}
	}
	t.byRing[after.ring][key] = after
}

// Of returns a rival of a ring that is alive, or nil.
func (t *Tracker) Of(ring string) *Rival {
	t.mu.Lock()
	defer t.mu.Unlock()
	var alive *Rival
	for _, known := range t.byRing[ring] {
		if known.Holder != "" && known.Until.After(t.clock.Now()) {
			if alive == nil || known.Namespace < alive.Namespace {
				found := known.Rival
				alive = &found
			}
		}
	}
	return alive
}
