package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// MemberID is the name of a member of the managed system: a process, or a group of processes. It is the same for all participants,
// and does not change when the member moves.
type MemberID string

// Members are the entries of a set.
type Members map[MemberID]Member

// Member is an entry of a set.
type Member struct {
	// Prefix is that of the member's participant. If several participants have an entry for the same member, for example because it
	// has no participant any more, it is the prefix of the latest entry.
	Prefix string `json:"prefix"`
	// Addresses are the published addresses of the member. Only sets of ready members have them.
	Addresses []string `json:"addresses,omitempty"`
	// Version is the revision of the last write to the entry.
	Version int64 `json:"version"`
}

// setUpdates are changes to a set.
type setUpdates map[MemberID]setUpdate

// setUpdate is a change to an entry.
type setUpdate struct {
	remove, force bool
	addresses     []string
}

// addEntry adds a member to a set, or changes the addresses of its entry. An equal entry is not written again, so that a need that is
// done does not count as new.
func addEntry(addresses ...string) setUpdate { return setUpdate{addresses: addresses} }

// members returns the entries of a set in a snapshot.
func (k keys) members(from *kv.Snapshot, set Set) Members {
	found := Members{}
	for key, entry := range from.Entries {
		segments := k.split(key)
		if len(segments) != 3 || segments[0] != string(set) {
			continue
		}
		id, member := MemberID(segments[2]), Member{Prefix: segments[1], Addresses: strings.Fields(entry.Value), Version: entry.Version}
		if other, exists := found[id]; !exists || other.before(member) {
			found[id] = member
		}
	}
	return found
}

// before reports whether an entry was written before another entry of the same member. Versions of two prefixes are equal only after
// a change of the prefix, which writes to both in one transaction.
func (m Member) before(other Member) bool {
	return m.Version < other.Version || m.Version == other.Version && m.Prefix < other.Prefix
}

// declaredBy returns the prefixes of the participants with an entry of a member in a set.
func (k keys) declaredBy(from *kv.Snapshot) map[Set]map[MemberID][]string {
	declaredBy := map[Set]map[MemberID][]string{}
	for key := range from.Entries {
		segments := k.split(key)
		if len(segments) != 3 || !Set(segments[0]).known() {
			continue
		}
		set, id := Set(segments[0]), MemberID(segments[2])
		if declaredBy[set] == nil {
			declaredBy[set] = map[MemberID][]string{}
		}
		declaredBy[set][id] = append(declaredBy[set][id], segments[1])
	}
	return declaredBy
}

// change is an operation that is done only if the entry differs.
type change struct {
	kv.Operation
	// force writes a Put also if the entry is equal.
	force bool
	// basedOn is the version of the entry on which the change is based, or 0. While the entry has this version, a Put is written even if
	// it is equal; a Delete is done only then.
	basedOn int64
}

// isNeeded reports whether the change has to be written, given the entry.
func (c change) isNeeded(entry kv.Entry, exists bool) bool {
	switch {
	case c.Delete:
		return exists && (c.basedOn == 0 || c.basedOn == entry.Version)
	case exists && c.basedOn == entry.Version:
		return true
	}
	return c.force || !exists || entry.Value != c.Value
}

// errRegistrationChanged is returned when a newer process of the participant works, or has moved its entries.
var errRegistrationChanged = errors.New("another process of this participant has changed its registration")

// ownsPrefix reports whether this process may write below a prefix.
func (c *Coordinator) ownsPrefix(found *kv.Snapshot, prefix string) bool {
	session, started := c.registeredAs(found)
	return c.keys.owners(found)[prefix] == c.name && c.newerProcess(found, session, started) == nil
}

// update writes the changes that are needed.
func (c *Coordinator) update(ctx context.Context, prefix string, wanted []change) error {
	before, err := c.store.Read(ctx, c.keys.root)
	if err != nil {
		return err
	}
	if !c.ownsPrefix(before, prefix) {
		return fmt.Errorf("%w: %s", errRegistrationChanged, c.name)
	}
	return c.updateFrom(ctx, prefix, before, wanted)
}

// If the store became full during an action, the lock could never be released: neither the answers nor the done record could be
// written. So a transaction that begins something leaves room for those that end it. In a ConfigMap, an intent takes up to 0.7 times
// the space of the entries that declare its needs, and its answers up to 1.8 times: entries in a quarter of the store never fill it.
const (
	reserveOfEntries = 75 // for the entries of a participant
	reserveOfIntent  = 50 // for an intent, because its answers follow
)

// maxOperations is the maximum number of entries that one transaction changes: the default limit of etcd is 128 operations.
const maxOperations = 100

// updateFrom is update with a snapshot of the entries. It uses several transactions if necessary: until the last one, the marker says that
// the declaration is incomplete, and no action begins.
func (c *Coordinator) updateFrom(ctx context.Context, prefix string, before *kv.Snapshot, wanted []change) error {
	var needed []kv.Operation
	for _, change := range wanted {
		if entry, exists := before.Entries[change.Key]; change.isNeeded(entry, exists) {
			needed = append(needed, change.Operation)
		}
	}
	if len(needed) == 0 && !decodeMarker(before.Entries[c.keys.changes(prefix)].Value).Incomplete {
		return nil
	}
	err := c.writeParts(ctx, prefix, before, needed, false)
	if !errors.Is(err, kv.ErrTooLarge) {
		return err
	}
	// The removal of outdated entries makes room. The declaration stays incomplete.
	removed := slices.DeleteFunc(needed, func(operation kv.Operation) bool { return !operation.Delete })
	if len(removed) > 0 {
		if again := c.writeParts(ctx, prefix, before, removed, true); again != nil {
			return errors.Join(err, again)
		}
	}
	return err
}

// writeParts writes operations in as many transactions as necessary, if the marker is unchanged. It updates the marker in the snapshot,
// also if it returns an error, because later writes have to keep its Incomplete.
func (c *Coordinator) writeParts(ctx context.Context, prefix string, before *kv.Snapshot, operations []kv.Operation, incomplete bool) error {
	for first := true; first || len(operations) > 0; first = false {
		part := operations[:min(len(operations), c.maxOperations)]
		operations = operations[len(part):]
		mark := c.writeMarker(prefix, incomplete || len(operations) > 0)
		written, err := c.store.Commit(ctx, kv.Transaction{
			If:      []kv.Condition{kv.IsAt(mark.Key, before.Entries[mark.Key].Version)},
			Then:    append(slices.Clone(part), mark),
			Reserve: reserveOfEntries,
		})
		if err != nil {
			return err
		}
		before.Entries[mark.Key] = kv.Entry{Value: mark.Value, Version: written}
	}
	return nil
}

// marker is the entry that is written with every change of the entries of a prefix.
type marker struct {
	By string `json:"by"`
	// Incomplete is set while the participant is about to write more entries.
	Incomplete bool `json:"incomplete,omitempty"`
}

func decodeMarker(value string) marker {
	var m marker
	_ = json.Unmarshal([]byte(value), &m) // a marker of another version counts as complete
	return m
}

// changesFor returns the changes for updates of sets.
func (k keys) changesFor(prefix string, updates map[Set]setUpdates) ([]change, error) {
	var all []change
	for _, set := range slices.Sorted(maps.Keys(updates)) {
		if !set.known() {
			return nil, fmt.Errorf("unknown set %q", set)
		}
		for _, id := range slices.Sorted(maps.Keys(updates[set])) {
			operation, err := k.operation(set, prefix, id, updates[set][id])
			if err != nil {
				return nil, err
			}
			all = append(all, change{Operation: operation, force: updates[set][id].force})
		}
	}
	return all, nil
}

func (k keys) operation(set Set, prefix string, id MemberID, update setUpdate) (kv.Operation, error) {
	if err := checkSegment("the member's ID", string(id)); err != nil {
		return kv.Operation{}, err
	}
	key := k.member(set, prefix, id)
	if update.remove {
		return kv.Delete(key), nil
	}
	if len(update.addresses) > 0 && !set.isReady() {
		return kv.Operation{}, fmt.Errorf("entries of %s have no addresses", set)
	}
	for _, address := range update.addresses {
		if address == "" || len(strings.Fields(address)) != 1 {
			return kv.Operation{}, fmt.Errorf("the address %q of %s is empty or has spaces", address, id)
		}
	}
	return kv.Put(key, strings.Join(update.addresses, " ")), nil
}

// keepMarker returns the operation that writes the marker of a prefix again, with the same Incomplete.
func (c *Coordinator) keepMarker(before map[string]kv.Entry, prefix string) kv.Operation {
	return c.writeMarker(prefix, decodeMarker(before[c.keys.changes(prefix)].Value).Incomplete)
}

// writeMarker returns the operation that writes the marker of a prefix.
func (c *Coordinator) writeMarker(prefix string, incomplete bool) kv.Operation {
	return kv.Put(c.keys.changes(prefix), encode(marker{By: c.name, Incomplete: incomplete}))
}
