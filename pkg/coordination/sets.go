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
	remove, again bool
	addresses     []string
}

// addEntry makes a member an entry of a set, or gives its entry other addresses. An entry that is there already stays as it is,
// also if what it asked for was done: it is not done again.
func addEntry(addresses ...string) setUpdate { return setUpdate{addresses: addresses} }

// members are the entries of a set that are in a snapshot.
func (k keys) members(from *kv.Snapshot, set Set) Members {
	found := Members{}
	for key, entry := range from.Entries {
		at := k.split(key)
		if len(at) != 3 || at[0] != string(set) {
			continue
		}
		id, member := MemberID(at[2]), Member{Prefix: at[1], Addresses: strings.Fields(entry.Value), Version: entry.Version}
		if other, exists := found[id]; !exists || other.before(member) {
			found[id] = member
		}
	}
	return found
}

// before tells whether an entry was written before another one of the same member. One transaction writes for one prefix
// only, but for its migration.
func (m Member) before(other Member) bool {
	return m.Version < other.Version || m.Version == other.Version && m.Prefix < other.Prefix
}

// asking are the prefixes of all instances that have an entry of a member in a set.
func (k keys) asking(from *kv.Snapshot) map[Set]map[MemberID][]string {
	asking := map[Set]map[MemberID][]string{}
	for key := range from.Entries {
		at := k.split(key)
		if len(at) != 3 || !Set(at[0]).known() {
			continue
		}
		set, id := Set(at[0]), MemberID(at[2])
		if asking[set] == nil {
			asking[set] = map[MemberID][]string{}
		}
		asking[set][id] = append(asking[set][id], at[1])
	}
	return asking
}

// change is something to be written, if it is not so yet.
type change struct {
	kv.Operation
	// again is for a Put that is written also if the entry is just so.
	again bool
	// seen is the version of the entry that the change is made because of, if it matters: it is written again if it is
	// still at that one, and deleted only then.
	seen int64
}

// isNews tells whether the change has to be written, given what is there.
func (c change) isNews(entry kv.Entry, exists bool) bool {
	switch {
	case c.Delete:
		return exists && (c.seen == 0 || c.seen == entry.Version)
	case exists && c.seen == entry.Version:
		return true
	}
	return c.again || !exists || entry.Value != c.Value
}

// errMoved is returned to a process when a newer one of its participant works, or has moved what is below its prefix.
var errMoved = errors.New("another process of this participant has changed its registration")

// mayWrite tells whether the entries below a prefix are this process's own.
func (c *Coordinator) mayWrite(found *kv.Snapshot, prefix string) bool {
	session, started := c.registeredAs(found)
	return c.keys.owners(found)[prefix] == c.name && c.newerProcess(found, session, started) == nil
}

// update writes what is not so yet.
func (c *Coordinator) update(ctx context.Context, prefix string, wanted []change) error {
	before, err := c.store.Read(ctx, c.keys.root)
	if err != nil {
		return err
	}
	if !c.mayWrite(before, prefix) {
		return fmt.Errorf("%w: %s", errMoved, c.name)
	}
	return c.updateFrom(ctx, prefix, before, wanted)
}

// A store that is full while somebody acts would keep the lock for good: neither the answers to the orders nor the record of the
// action could be written. So a transaction that begins something leaves room for the ones that end it, and those leave none. In
// a ConfigMap, the intent of an action takes up to 0.7 times as much as the entries that ask for it, and the answers to it up to
// 1.8 times as much: entries for a quarter of the store never fill it.
const (
	reserveOfEntries = 75 // for the entries of a participant
	reserveOfIntent  = 50 // for an intent: the answers follow
)

// maxOperations is how many entries one transaction changes at most: etcd takes 128 operations by default.
const maxOperations = 100

// updateFrom is update when it is known what is there. More than a transaction takes is written in several; until the last
// one, the marker says that entries are missing, and no action begins.
func (c *Coordinator) updateFrom(ctx context.Context, prefix string, before *kv.Snapshot, wanted []change) error {
	var news []kv.Operation
	for _, change := range wanted {
		if entry, exists := before.Entries[change.Key]; change.isNews(entry, exists) {
			news = append(news, change.Operation)
		}
	}
	if len(news) == 0 && !understoodMarker(before.Entries[c.keys.changes(prefix)].Value).Incomplete {
		return nil
	}
	err := c.writeParts(ctx, prefix, before, news, false)
	if !errors.Is(err, kv.ErrTooLarge) {
		return err
	}
	// Removing outdated entries makes room. The other entries are still missing.
	removed := slices.DeleteFunc(news, func(operation kv.Operation) bool { return !operation.Delete })
	if len(removed) > 0 {
		if again := c.writeParts(ctx, prefix, before, removed, true); again != nil {
			return errors.Join(err, again)
		}
	}
	return err
}

// writeParts writes operations in as many transactions as they take, if the marker is as it was before, and notes there what it is
// then, also if it returns an error: the next write of the marker must know whether entries are missing.
func (c *Coordinator) writeParts(ctx context.Context, prefix string, before *kv.Snapshot, operations []kv.Operation, incomplete bool) error {
	for first := true; first || len(operations) > 0; first = false {
		part := operations[:min(len(operations), c.maxOperations)]
		operations = operations[len(part):]
		mark := c.mark(prefix, incomplete || len(operations) > 0)
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

// marker is what is written with every change to what a prefix owns.
type marker struct {
	By string `json:"by"`
	// Incomplete is set while the participant is about to write more entries.
	Incomplete bool `json:"incomplete,omitempty"`
}

func understoodMarker(value string) marker {
	var m marker
	_ = json.Unmarshal([]byte(value), &m) // one of another version is complete
	return m
}

// changesOf are those that updates of sets ask for.
func (k keys) changesOf(prefix string, updates map[Set]setUpdates) ([]change, error) {
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
			all = append(all, change{Operation: operation, again: updates[set][id].again})
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

// changed marks that something of a prefix was changed, given what was there. Entries that were missing still are.
func (c *Coordinator) changed(before map[string]kv.Entry, prefix string) kv.Operation {
	return c.mark(prefix, understoodMarker(before[c.keys.changes(prefix)].Value).Incomplete)
}

func (c *Coordinator) mark(prefix string, incomplete bool) kv.Operation {
	return kv.Put(c.keys.changes(prefix), encode(marker{By: c.name, Incomplete: incomplete}))
}
