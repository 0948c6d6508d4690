package coordination

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MemberID names a member of the managed system: a process, or a group of them. It is the same wherever the
// member is moved, and in all regions.
type MemberID string

// Members are the entries of a set.
type Members map[MemberID]Member

// Member is an entry of a set.
type Member struct {
	// Prefix is that of the instance which the member belongs to.
	Prefix string `json:"prefix"`
	// Addresses are where the member can be reached, in the sets of members that are ready to be excluded or
	// included. In other sets there are none.
	Addresses []string `json:"addresses,omitempty"`
	// Version is the revision at which the entry was written last.
	Version int64 `json:"version"`
}

// Updates are changes to a set.
type Updates map[MemberID]Update

// Update is a change to an entry: Add or Remove.
type Update struct {
	remove    bool
	addresses []string
}

// Add makes a member an entry of a set, or gives its entry other addresses.
func Add(addresses ...string) Update { return Update{addresses: addresses} }

// Remove takes a member out of a set, if it is there.
func Remove() Update { return Update{remove: true} }

// Get returns the entries of a set at one revision: of all instances, or of those with one of the prefixes.
func (c *Coordinator) Get(ctx context.Context, set Set, prefixes ...string) (Members, error) {
	if c.Settings().Mode != Global {
		return Members{}, nil
	}
	paths := []string{c.keys.ofSet(set)}
	if len(prefixes) > 0 {
		paths = nil
		for _, prefix := range prefixes {
			paths = append(paths, c.keys.ofSet(set, prefix))
		}
	}
	found, err := c.store.Read(ctx, paths...)
	if err != nil {
		return nil, fmt.Errorf("reading %s of %s: %w", set, c.system, err)
	}
	return c.keys.members(found, set), nil
}

// members are the entries of a set that are in a snapshot.
func (k keys) members(from *Snapshot, set Set) Members {
	found := Members{}
	for key, entry := range from.Entries {
		if at := k.split(key); len(at) == 3 && at[0] == string(set) {
			found[MemberID(at[2])] = Member{Prefix: at[1], Addresses: strings.Fields(entry.Value), Version: entry.Version}
		}
	}
	return found
}

// Update changes this instance's entries of several sets, all or none of them. What is so already is not
// written again: others would take it for news. In local mode it does nothing.
func (c *Coordinator) Update(ctx context.Context, changes map[Set]Updates) error {
	mine := c.Settings()
	if mine.Mode != Global {
		return nil
	}
	wanted, err := c.keys.operations(mine.Prefix, changes)
	if err != nil || len(wanted) == 0 {
		return err
	}
	if err := c.retry(ctx, func() error { return c.update(ctx, mine.Prefix, wanted, nil) }); err != nil {
		return fmt.Errorf("updating the entries of %s in %s: %w", mine.Prefix, c.system, err)
	}
	return nil
}

// update writes what is not so yet, and what is to be written again at the versions that are given.
func (c *Coordinator) update(ctx context.Context, prefix string, wanted []Operation, again map[string]int64) error {
	marker := c.keys.changes(prefix)
	before, err := c.store.Read(ctx, append(c.keys.ownedBy(prefix), marker)...)
	if err != nil {
		return err
	}
	news := slices.DeleteFunc(slices.Clone(wanted), func(o Operation) bool {
		entry, exists := before.Entries[o.Key]
		if exists && again[o.Key] == entry.Version {
			return false
		}
		return o.Delete && !exists || !o.Delete && exists && entry.Value == o.Value
	})
	if len(news) == 0 {
		return nil
	}
	_, err = c.store.Commit(ctx, Transaction{
		If:   []Condition{IsAt(marker, before.Entries[marker].Version)},
		Then: append(news, c.changed(prefix)),
	})
	return err
}

func (k keys) operations(prefix string, changes map[Set]Updates) ([]Operation, error) {
	var all []Operation
	for _, set := range slices.Sorted(maps.Keys(changes)) {
		if !set.known() {
			return nil, fmt.Errorf("there is no set %q", set)
		}
		for _, id := range slices.Sorted(maps.Keys(changes[set])) {
			operation, err := k.operation(set, prefix, id, changes[set][id])
			if err != nil {
				return nil, err
			}
			all = append(all, operation)
		}
	}
	return all, nil
}

func (k keys) operation(set Set, prefix string, id MemberID, update Update) (Operation, error) {
	if err := checkSegment("the member's ID", string(id)); err != nil {
		return Operation{}, err
	}
	key := k.member(set, prefix, id)
	if update.remove {
		return Delete(key), nil
	}
	if len(update.addresses) > 0 && !set.hasAddresses() {
		return Operation{}, fmt.Errorf("entries of %s have no addresses", set)
	}
	for _, address := range update.addresses {
		if address == "" || len(strings.Fields(address)) != 1 {
			return Operation{}, fmt.Errorf("the address %q of %s is empty or has spaces", address, id)
		}
	}
	return Put(key, strings.Join(update.addresses, " ")), nil
}

// changed marks that something of a prefix was changed.
func (c *Coordinator) changed(prefix string) Operation {
	return Put(c.keys.changes(prefix), c.name)
}
