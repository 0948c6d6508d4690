package members

import (
	"cmp"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ringmaster-project/ringmaster/internal/membership"
)

// Shard is a shard of a ring at one moment.
type Shard struct {
	Name, Namespace string
	State           membership.State
	// Leaving is whether the shard has announced that it stops, or must stop because its Lease was deleted. Cordoned is
	// whether its objects are drained. Neither is assigned new objects.
	Leaving, Cordoned bool
	// PeersElsewhere is whether the ring has members in other namespaces. Only the method Shard sets it.
	PeersElsewhere bool
	// Resources is the value of AnnotationResources on its Lease, which any client may have written.
	Resources string
	// Pod is the value of AnnotationPod on its Lease, which any client may have written.
	Pod string
	// RecheckAt is when the state changes if no Lease changes before.
	RecheckAt time.Time
}

// Shards returns all shards of a ring, including dead ones, ordered by name.
func (t *Tracker) Shards(name string) []Shard {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.rings[name]
	if known == nil || !known.declared {
		return nil
	}
	shards := make([]Shard, 0, len(known.byName))
	for name := range known.byName {
		if lease := known.incumbent(name); lease != nil && known.refusal(lease) == NotRefused {
			shards = append(shards, t.shard(known, lease))
		}
	}
	slices.SortFunc(shards, func(a, b Shard) int { return cmp.Compare(a.Name, b.Name) })
	return shards
}

// Shard returns the shard of a Lease, if its ring is declared and accepts it.
func (t *Tracker) Shard(key types.NamespacedName) (shard Shard, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lease := t.leases[key]
	if lease == nil {
		return Shard{}, false
	}
	known := t.rings[lease.ring]
	if !known.declared || known.refusal(lease) != NotRefused {
		return Shard{}, false
	}
	shard = t.shard(known, lease)
	shard.PeersElsewhere = slices.ContainsFunc(known.members(), func(other *observedLease) bool { return other.key.Namespace != key.Namespace })
	return shard, true
}

func (t *Tracker) shard(known *state, lease *observedLease) Shard {
	state, recheckAt := membership.StateOf(lease.Lease, known.renewals, t.clock.Now())
	return Shard{
		Name: lease.key.Name, Namespace: lease.key.Namespace, State: state, RecheckAt: recheckAt, Resources: lease.resources, Pod: lease.pod,
		Leaving: lease.Leaving || lease.facts.deleted, Cordoned: cordoned(lease),
	}
}

// Refusal returns why its ring does not accept a Lease, or NotRefused.
func (t *Tracker) Refusal(key types.NamespacedName) Refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	lease := t.leases[key]
	if lease == nil || !t.rings[lease.ring].declared {
		return NoRing
	}
	return t.rings[lease.ring].refusal(lease)
}

// Incumbent returns the namespace of the Lease that keeps this one of the same name from being a shard.
func (t *Tracker) Incumbent(key types.NamespacedName) (namespace string, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lease := t.leases[key]
	if lease == nil || !t.rings[lease.ring].declared {
		return "", false
	}
	if owner := t.rings[lease.ring].incumbent(key.Name); owner != nil && owner.key != key {
		return owner.key.Namespace, true
	}
	return "", false
}

// Holders returns the shards of a ring whose Leases are held, observed or not, and those that may still work although
// their Leases were deleted. They include shards that the ring refuses, for example because it is full, until their
// Leases have been taken over: they may still work.
func (t *Tracker) Holders(name string, leases []coordinationv1.Lease) map[string]bool {
	t.mu.Lock()
	known := t.rings[name]
	if known == nil || !known.declared {
		t.mu.Unlock()
		return map[string]bool{}
	}
	admitting, excluded := newCandidates(known.namespaces), map[types.NamespacedName]types.UID{}
	for _, member := range known.members() {
		if member.facts.excluded {
			excluded[member.key] = member.facts.uid
		}
	}
	holders := map[string]bool{}
	for key := range known.deleted { // which the API server no longer has
		holders[key.Name] = true
	}
	t.mu.Unlock()
	for i := range leases {
		lease := newObservedLease(&leases[i])
		uid, found := excluded[lease.key]
		if lease.ring == name && lease.Held() && (admitting.admits(lease.key) == NotRefused || found && uid == lease.facts.uid) {
			holders[lease.Shard] = true
		}
	}
	return holders
}

// Namespaces returns the namespaces whose shards are members of a ring, for its status: those from which it accepts
// shards, and those of cordoned shards. They include AllNamespaces if it accepts shards from all.
func (t *Tracker) Namespaces(name string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.rings[name]
	if known == nil || !known.declared {
		return nil
	}
	namespaces := slices.Concat(known.namespaces, known.excludedNamespaces())
	if len(known.namespaces) == 0 {
		namespaces = append(namespaces, AllNamespaces)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}
