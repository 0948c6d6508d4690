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
	// Leaving is whether it has announced that, or must stop because its Lease is gone: it gets no new objects. Cordoned is
	// whether it gets none either, and is asked to release those that it has.
	Leaving, Cordoned bool
	// PeersElsewhere is whether the ring has members in other namespaces. Only the method Shard sets it.
	PeersElsewhere bool
	// Resources is what its Lease has in AnnotationResources, which anybody may have written.
	Resources string
	// Again is when to look at the state again, if no Lease changes before.
	Again time.Time
}

// Shards returns all shards of a ring, dead ones included, in order.
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

// Shard returns the shard that a Lease belongs to, if its ring is declared and takes it.
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
	shard.PeersElsewhere = slices.ContainsFunc(known.members(), func(other *observed) bool { return other.key.Namespace != key.Namespace })
	return shard, true
}

func (t *Tracker) shard(known *state, lease *observed) Shard {
	state, again := membership.StateOf(lease.Lease, known.renewals, t.clock.Now())
	return Shard{
		Name: lease.key.Name, Namespace: lease.key.Namespace, State: state, Again: again, Resources: lease.resources,
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

// Namesake returns the namespace of the Lease that keeps another one of the same name from being a shard.
func (t *Tracker) Namesake(key types.NamespacedName) (namespace string, found bool) {
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

// Holders returns the shards of a ring whose Leases are held, whether they were observed or not, and those that may
// still work although their Leases are gone. A shard that the ring refuses, because it is full for example, is among them
// until its Lease has been taken over: it may still work.
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
	for key := range known.deleted { // of which the API server knows nothing any more
		holders[key.Name] = true
	}
	t.mu.Unlock()
	for i := range leases {
		lease := read(&leases[i])
		uid, found := excluded[lease.key]
		if lease.ring == name && lease.Held() && (admitting.admits(lease.key) == NotRefused || found && uid == lease.facts.uid) {
			holders[lease.Shard] = true
		}
	}
	return holders
}

// Namespaces returns the namespaces whose shards are members of a ring, for the record: those that it takes shards from, and
// those of cordoned shards. AllNamespaces is one of them if it takes shards from anywhere.
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
