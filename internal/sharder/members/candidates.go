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
	// NameTooLong: the name cannot be a label's value.
	NameTooLong Refusal = "NameTooLong"
	// WrongNamespace: the ring takes no shards from there.
	WrongNamespace Refusal = "WrongNamespace"
	// NameTaken: an older Lease in another namespace has the name.
	NameTaken Refusal = "NameTaken"
	// DurationTooLong: a shard that dies would not be noticed in time.
	DurationTooLong Refusal = "DurationTooLong"
	// RingFull: the ring has as many shards as it can have, all of them with older Leases.
	RingFull Refusal = "RingFull"
)

// candidates are the Leases that name one ring, and which of them are members. It is decided by facts that
// the API server assigns, so that all replicas come to the same result whatever the order in which they see
// the Leases, and a replica that has just started as well.
type candidates struct {
	namespaces []string // whose Leases count; none means all
	// byName has all Leases, the oldest of each name first.
	byName map[string][]*observed
	// holders have their name and hold their Lease, excluded ones first, then the oldest. The first ones are the members.
	holders []*observed
	// renewals are those of the holders.
	renewals membership.Renewals
}

func newCandidates(namespaces []string) candidates {
	return candidates{namespaces: slices.Clone(namespaces), byName: map[string][]*observed{}}
}

// restrict changes the namespaces whose Leases count. With cordon, members that are elsewhere stay members, and are
// excluded: they work on objects, which must not be taken from them.
func (c *candidates) restrict(namespaces []string, cordon bool) {
	if slices.Equal(c.namespaces, namespaces) {
		return
	}
	changed, members := newCandidates(namespaces), map[*observed]bool{}
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

// admits tells whether a Lease may join: where it is, and whether its name can be a label's value.
// A Lease that may not is ignored here; the lease controller reports it.
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
// while it restarts. A second shard of that name would work on the same objects, and that is why an excluded
// one keeps its name as well.
func (c *candidates) incumbent(name string) *observed {
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

// refusal is why the ring does not accept a Lease.
func (c *candidates) refusal(lease *observed) Refusal {
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

// replace changes one Lease, of which either may be nil. Both have the same key.
func (c *candidates) replace(before, after *observed) {
	name := cmp.Or(after, before).key.Name
	was := c.holder(name)
	if was != nil {
		at, _ := slices.BinarySearchFunc(c.holders, was, precedes)
		c.holders = slices.Delete(c.holders, at, at+1)
	}
	leases := c.byName[name]
	if before != nil {
		leases = slices.DeleteFunc(leases, func(lease *observed) bool { return lease == before })
	}
	if after != nil {
		at, _ := slices.BinarySearchFunc(leases, after, older)
		leases = slices.Insert(leases, at, after)
	}
	if c.byName[name] = leases; len(leases) == 0 {
		delete(c.byName, name)
	}
	is := c.holder(name)
	if is != nil {
		at, _ := slices.BinarySearchFunc(c.holders, is, precedes)
		c.holders = slices.Insert(c.holders, at, is)
		c.renewals.Add(is.Lease)
	} else if was != nil && c.renewals.Has(name) {
		c.renewals = membership.Renewals{}
		for _, other := range c.holders {
			c.renewals.Add(other.Lease)
		}
	}
}

// renewed notes that a Lease was renewed, and is the same otherwise.
func (c *candidates) renewed(lease *observed) {
	if c.holder(lease.key.Name) == lease {
		c.renewals.Add(lease.Lease)
	}
}

// holder is the Lease that a name belongs to, if that is held and may be.
func (c *candidates) holder(name string) *observed {
	if lease := c.incumbent(name); lease != nil && lease.Held() && !lease.facts.tooLong {
		return lease
	}
	return nil
}

// room is how many holders can be members. Excluded ones take no room from others.
func (c *candidates) room() int {
	excluded, _ := slices.BinarySearchFunc(c.holders, false, func(lease *observed, _ bool) int {
		if lease.facts.excluded {
			return -1
		}
		return 1
	})
	return membership.MaxShards + min(excluded, membership.MaxShards)
}

// members are the holders for which there is room.
func (c *candidates) members() []*observed { return c.holders[:min(len(c.holders), c.room())] }

// full tells whether not all holders can be members.
func (c *candidates) full() bool { return len(c.holders) > c.room() }

// isMember tells whether a Lease makes its shard a member.
func (c *candidates) isMember(lease *observed) bool {
	at, found := slices.BinarySearchFunc(c.holders, lease, precedes)
	return found && at < c.room() && c.holders[at].key == lease.key
}

// cordoned tells whether a member gets no new objects and the sharder asks it to release those that it owns.
func cordoned(member *observed) bool { return member.facts.excluded }

// names of the members, by what they get.
func (c *candidates) names() (names ring.Members) {
	for _, member := range c.members() {
		switch {
		case member.Leaving || member.facts.deleted: // it stops by itself
			names.Leaving = append(names.Leaving, member.Shard)
		case cordoned(member):
			names.Cordoned = append(names.Cordoned, member.Shard)
		default:
			names.Shards = append(names.Shards, member.Shard)
		}
	}
	return names
}

// excludedNamespaces are those that have members although the ring takes no shards from there.
func (c *candidates) excludedNamespaces() (namespaces []string) {
	for _, member := range c.members() {
		if member.facts.excluded {
			namespaces = append(namespaces, member.key.Namespace)
		}
	}
	return namespaces
}
