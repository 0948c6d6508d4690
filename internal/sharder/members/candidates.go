package members

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

// Refusal is why a ring does not accept a Lease that names it.
type Refusal string

// The refusals.
const (
	NotRefused Refusal = ""
	// NoRing: the ring does not exist.
	NoRing Refusal = "NoRing"
	// NameTooLong: the name is too long for a label value.
	NameTooLong Refusal = "NameTooLong"
	// WrongNamespace: the ring accepts no shards from the namespace.
	WrongNamespace Refusal = "WrongNamespace"
	// NameTaken: an older Lease in another namespace has the name.
	NameTaken Refusal = "NameTaken"
	// DurationTooLong: the death of the shard would not be noticed in time.
	DurationTooLong Refusal = "DurationTooLong"
	// RingFull: the ring has the maximum number of shards, all with older Leases.
	RingFull Refusal = "RingFull"
)

// candidates are the Leases that name one ring, and which of them are members. Facts that the API server assigns
// decide, so that all replicas come to the same result in whatever order they observe the Leases.
type candidates struct {
	namespaces []string // whose Leases count; none means all
	// byName has all Leases, the oldest of each name first.
	byName map[string][]*observedLease
	// holders are the held incumbents: excluded ones first, then by age. The first ones are the members.
	holders []*observedLease
	// renewals are the renewals of the holders.
	renewals membership.Renewals
}

func newCandidates(namespaces []string) candidates {
	return candidates{namespaces: slices.Clone(namespaces), byName: map[string][]*observedLease{}}
}

// restrict changes the namespaces whose Leases count. With cordon, members in other namespaces stay members and are
// excluded: they reconcile objects, which must not be reassigned without a drain.
func (c *candidates) restrict(namespaces []string, cordon bool) {
	if slices.Equal(c.namespaces, namespaces) {
		return
	}
	changed, members := newCandidates(namespaces), map[*observedLease]bool{}
	for _, member := range c.members() {
		members[member] = true
	}
	for _, leases := range c.byName {
		for _, lease := range leases {
			lease.facts.excluded = cordon && members[lease] && changed.admits(lease.key) == WrongNamespace
		}
	}
	for _, leases := range c.byName {
		for _, lease := range leases {
			changed.replace(nil, lease)
		}
	}
	*c = changed
}

// admits returns why a Lease may not join because of its namespace or name. The lease controller reports it.
func (c *candidates) admits(key types.NamespacedName) Refusal {
	switch {
	case len(key.Name) > shardingv1alpha1.MaxNameLength:
		return NameTooLong
	case len(c.namespaces) > 0 && !slices.Contains(c.namespaces, key.Namespace):
		return WrongNamespace
	}
	return NotRefused
}

// incumbent returns the oldest Lease of a name that may join, held or not, so that a shard keeps its name
// while it restarts. An excluded shard keeps its name as well, because a second shard of that name would
// reconcile the same objects.
func (c *candidates) incumbent(name string) *observedLease {
	for _, lease := range c.byName[name] {
		if lease.facts.excluded {
			return lease
		}
	}
	for _, lease := range c.byName[name] {
		if c.admits(lease.key) == NotRefused {
			return lease
		}
	}
	return nil
}

// refusal returns why the ring does not accept a Lease, or NotRefused.
func (c *candidates) refusal(lease *observedLease) Refusal {
	if why := c.admits(lease.key); why != NotRefused && !lease.facts.excluded {
		return why
	}
	switch {
	case c.incumbent(lease.key.Name).key != lease.key:
		return NameTaken
	case lease.facts.tooLong:
		return DurationTooLong
	case lease.Held() && !c.isMember(lease):
		return RingFull
	}
	return NotRefused
}

// replace replaces one Lease. Either may be nil; both have the same key.
func (c *candidates) replace(before, after *observedLease) {
	name := cmp.Or(after, before).key.Name
	previous := c.holder(name)
	if previous != nil {
		i, _ := slices.BinarySearchFunc(c.holders, previous, precedes)
		c.holders = slices.Delete(c.holders, i, i+1)
	}
	leases := c.byName[name]
	if before != nil {
		leases = slices.DeleteFunc(leases, func(lease *observedLease) bool { return lease == before })
	}
	if after != nil {
		i, _ := slices.BinarySearchFunc(leases, after, older)
		leases = slices.Insert(leases, i, after)
	}
	if c.byName[name] = leases; len(leases) == 0 {
		delete(c.byName, name)
	}
	holder := c.holder(name)
	if holder != nil {
		i, _ := slices.BinarySearchFunc(c.holders, holder, precedes)
		c.holders = slices.Insert(c.holders, i, holder)
		c.renewals.Add(holder.Lease)
	} else if previous != nil && c.renewals.Has(name) {
		c.renewals = membership.Renewals{}
		for _, other := range c.holders {
			c.renewals.Add(other.Lease)
		}
	}
}

// renewed records a renewal of a Lease that is otherwise unchanged.
func (c *candidates) renewed(lease *observedLease) {
	if c.holder(lease.key.Name) == lease {
		c.renewals.Add(lease.Lease)
	}
}

// holder returns the incumbent of a name if it is held by its shard, or nil.
func (c *candidates) holder(name string) *observedLease {
	if lease := c.incumbent(name); lease != nil && lease.Held() && !lease.facts.tooLong {
		return lease
	}
	return nil
}

// room returns how many holders can be members. Excluded ones do not count.
func (c *candidates) room() int {
	excluded, _ := slices.BinarySearchFunc(c.holders, false, func(lease *observedLease, _ bool) int {
		if lease.facts.excluded {
			return -1
		}
		return 1
	})
	return membership.MaxShards + min(excluded, membership.MaxShards)
}

// members returns the holders for which there is room.
func (c *candidates) members() []*observedLease { return c.holders[:min(len(c.holders), c.room())] }

// full reports whether some holders cannot be members.
func (c *candidates) full() bool { return len(c.holders) > c.room() }

// isMember reports whether a Lease makes its shard a member.
func (c *candidates) isMember(lease *observedLease) bool {
	i, found := slices.BinarySearchFunc(c.holders, lease, precedes)
	return found && i < c.room() && c.holders[i].key == lease.key
}

// cordoned reports whether a member is assigned no new objects and its objects are drained.
func cordoned(member *observedLease) bool { return member.facts.excluded }

// names returns the names of the members, by whether they are assigned objects.
func (c *candidates) names() (names ring.Members) {
	for _, member := range c.members() {
		switch {
		case member.Leaving || member.facts.deleted: // it is about to stop
			names.Leaving = append(names.Leaving, member.Shard)
		case cordoned(member):
			names.Cordoned = append(names.Cordoned, member.Shard)
		default:
			names.Shards = append(names.Shards, member.Shard)
		}
	}
	return names
}

// excludedNamespaces returns the namespaces of excluded members.
func (c *candidates) excludedNamespaces() (namespaces []string) {
	for _, member := range c.members() {
		if member.facts.excluded {
			namespaces = append(namespaces, member.key.Namespace)
		}
	}
	return namespaces
}
