package members

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
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
	// holders have their name and hold their Lease, the oldest first. The first ones are the members.
	holders []*observed
	// renewals are those of the holders.
	renewals membership.Renewals
}

func newCandidates(namespaces []string) candidates {
	return candidates{namespaces: slices.Clone(namespaces), byName: map[string][]*observed{}}
}

// restrict changes the namespaces whose Leases count.
func (c *candidates) restrict(namespaces []string) {
	if slices.Equal(c.namespaces, namespaces) {
		return
	}
	changed := newCandidates(namespaces)
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
// while it restarts. A second shard of that name would work on the same objects.
func (c *candidates) incumbent(name string) *observed {
	for _, lease := range c.byName[name] {
		if c.admits(lease.key) == NotRefused {
			return lease
		}
	}
	return nil
}

// refusal is why the ring does not accept a Lease.
func (c *candidates) refusal(lease *observed) Refusal {
	if why := c.admits(lease.key); why != NotRefused {
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
		at, _ := slices.BinarySearchFunc(c.holders, was, older)
		c.holders = slices.Delete(c.holders, at, at+1)
	}
	leases := c.byName[name]
	if before != nil {
		leases = slices.DeleteFunc(leases, func(lease *observed) bool { return lease.key == before.key })
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
		at, _ := slices.BinarySearchFunc(c.holders, is, older)
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

// members are the holders for which there is room.
func (c *candidates) members() []*observed {
	return c.holders[:min(len(c.holders), membership.MaxShards)]
}

// full tells whether not all holders can be members.
func (c *candidates) full() bool { return len(c.holders) > membership.MaxShards }

// isMember tells whether a Lease makes its shard a member.
func (c *candidates) isMember(lease *observed) bool {
	at, found := slices.BinarySearchFunc(c.holders, lease, older)
	return found && at < membership.MaxShards && c.holders[at].key == lease.key
}

// names of the members, and of those that are leaving.
func (c *candidates) names() (shards, leaving []string) {
	for _, member := range c.members() {
		if member.Leaving {
			leaving = append(leaving, member.Shard)
		} else {
			shards = append(shards, member.Shard)
		}
	}
	return shards, leaving
}
