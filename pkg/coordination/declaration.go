package coordination

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// wantedEntries are the entries that a participant should have: the addresses of members, by set.
type wantedEntries map[Set]map[MemberID][]string

// Add adds a member to a set.
func (w wantedEntries) Add(set Set, id MemberID, addresses ...string) {
	if w[set] == nil {
		w[set] = map[MemberID][]string{}
	}
	w[set][id] = addresses
}

// declare makes the entries of this participant equal to the wanted ones, and removes its answers to former intents. The view was
// read before the participant determined its needs: a need that was done at that time and still exists is a new need.
func (c *Coordinator) declare(ctx context.Context, view *View, wanted wantedEntries) error {
	settings := c.currentSettings()
	if settings.Mode != Global {
		return nil
	}
	changes, err := c.keys.changesFor(settings.Prefix, wanted.setUpdates())
	if err != nil {
		return err
	}
	for i, change := range changes {
		segments := c.keys.split(change.Key)
		if entry, exists := view.entries[change.Key]; exists && view.isDoneAt(Set(segments[0]), MemberID(segments[2]), entry.Version) {
			changes[i].basedOn = entry.Version // it was done, and is needed again
		}
	}
	for _, key := range sortedKeys(view.entries) { // the parts of a large declaration have a fixed order
		if segments := c.keys.split(key); len(segments) == 3 && segments[1] == settings.Prefix && c.outdated(view, segments, wanted) {
			changes = append(changes, change{Operation: kv.Delete(key), basedOn: view.entries[key].Version})
		}
	}
	err = c.updateFrom(ctx, settings.Prefix, view.snapshot(), changes)
	if errors.Is(err, kv.ErrConflict) { // the view is outdated
		err = c.retry(ctx, func() error { return c.update(ctx, settings.Prefix, changes) })
	}
	if err != nil {
		return fmt.Errorf("declaring the entries of %s in %s: %w", settings.Prefix, c.system, err)
	}
	return nil
}

// outdated reports whether an entry of this participant, given by the segments of its key, has to be removed.
func (c *Coordinator) outdated(view *View, segments []string, wanted wantedEntries) bool {
	set, id := Set(segments[0]), MemberID(segments[2])
	if segments[0] == kindAnswers {
		return view.Intent == nil || view.Answers[id].Intent != view.Intent.ID
	}
	_, isWanted := wanted[set][id]
	return set.known() && !isWanted
}

// setUpdates returns the updates that add all entries.
func (w wantedEntries) setUpdates() map[Set]setUpdates {
	all := map[Set]setUpdates{}
	for set, members := range w {
		all[set] = setUpdates{}
		for id, addresses := range members {
			all[set][id] = addEntry(addresses...)
		}
	}
	return all
}
