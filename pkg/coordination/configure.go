package coordination

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrPrefixTaken is returned when another instance that is alive has the prefix.
var ErrPrefixTaken = errors.New("another instance has this prefix")

// Instance is what an instance says of itself while it lives.
type Instance struct {
	Name       string `json:"name"`
	Prefix     string `json:"prefix"`
	Mode       Mode   `json:"mode"`
	Generation int64  `json:"generation,omitempty"`
}

// Configure makes settings hold, and this instance known to the others. It is called in every reconcile; what
// holds already costs no write. A changed prefix takes all that this instance has written along, in one
// transaction. A change to local mode removes all of it, in one transaction, and gives the lock back.
func (c *Coordinator) Configure(ctx context.Context, to Settings) error {
	if to.Mode == "" {
		to.Mode = Local
	}
	if err := to.check(); err != nil {
		return err
	}
	if err := c.giveBack(ctx); err != nil {
		return err
	}
	to = to.clone()
	from := c.Settings()
	var err error
	switch {
	case to.Mode == Global:
		err = c.retry(ctx, func() error { return c.enter(ctx, from, to) })
	case from.Mode == Global:
		err = c.retry(ctx, func() error { return c.leave(ctx, from) })
	}
	if err != nil {
		return fmt.Errorf("coordinating %s: %w", c.system, err)
	}
	c.mu.Lock()
	c.settings = to
	c.mu.Unlock()
	if from.Mode == Global && to.Mode != Global {
		c.rest(ctx)
	}
	return nil
}

// leave removes what this instance has written.
func (c *Coordinator) leave(ctx context.Context, from Settings) error {
	found, err := c.store.Read(ctx, c.keys.lock())
	if err != nil {
		return err
	}
	t := Transaction{Then: []Operation{Delete(c.keys.changes(from.Prefix)), Delete(c.keys.instances(from.Prefix, c.name))}}
	for _, path := range c.keys.ownedBy(from.Prefix) {
		t.Then = append(t.Then, DeleteBelow(path))
	}
	if held := found.Entries[c.keys.lock()]; held.Version != 0 && c.holds(held) {
		t.If = append(t.If, IsAt(c.keys.lock(), held.Version))
		t.Then = append(t.Then, Delete(c.keys.lock()))
		c.endGrant()
	}
	if _, err := c.store.Commit(ctx, t); err != nil {
		return err
	}
	c.mu.Lock()
	c.registered = ""
	c.mu.Unlock()
	return nil
}

// endGrant ends the grant of a lock that is about to be given back with all the rest.
func (c *Coordinator) endGrant() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grant != nil {
		c.grant.cancel(context.Canceled)
	}
	c.doubtful = true
}

// enter registers this instance and moves what it has written to its prefix.
func (c *Coordinator) enter(ctx context.Context, from, to Settings) error {
	session, err := c.live(ctx)
	if err != nil {
		return err
	}
	record, err := json.Marshal(Instance{Name: c.name, Prefix: to.Prefix, Mode: to.Mode, Generation: to.Generation})
	if err != nil {
		return err
	}
	if c.isRegistered(string(record), session) && slices.Equal(from.Denied, to.Denied) && from.Prefix == to.Prefix && from.Mode == to.Mode {
		return nil
	}
	moves := from.Mode == Global && from.Prefix != to.Prefix
	paths := append(c.keys.ownedBy(to.Prefix), c.keys.instances(), c.keys.changes(), c.keys.done(), c.keys.intent())
	if moves {
		paths = append(paths, c.keys.ownedBy(from.Prefix)...)
	}
	found, err := c.store.Read(ctx, paths...)
	if err != nil {
		return err
	}
	if other := c.otherInstance(found, to.Prefix); other != "" && from.Prefix != to.Prefix {
		return fmt.Errorf("%w: %q is %s's; choose another one", ErrPrefixTaken, to.Prefix, other)
	}
	t := Transaction{
		If:   []Condition{c.unchanged(found, to.Prefix)},
		Then: append(c.deny(found, to), PutFor(session, c.keys.instances(to.Prefix, c.name), string(record))),
	}
	if from.Prefix != to.Prefix {
		t.If = append(t.If, NotWritten(c.keys.instances(to.Prefix), found.Revision)) // nobody else enters meanwhile
	}
	if moves {
		t.If = append(t.If, c.unchanged(found, from.Prefix), NotWritten(c.keys.done(), found.Revision),
			IsAt(c.keys.intent(), found.Entries[c.keys.intent()].Version))
		t.Then = append(t.Then, c.migrate(found, from.Prefix, to.Prefix)...)
	}
	if len(t.Then) > 1 { // not for a sign of life alone
		t.Then = append(t.Then, c.changed(to.Prefix))
	}
	if _, err := c.store.Commit(ctx, t); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registered, c.registeredFor = string(record), session.ID()
	return nil
}

func (c *Coordinator) isRegistered(record string, session Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered == record && c.registeredFor == session.ID()
}

// unchanged is met while nothing of a prefix has changed since it was read.
func (c *Coordinator) unchanged(found *Snapshot, prefix string) Condition {
	marker := c.keys.changes(prefix)
	return IsAt(marker, found.Entries[marker].Version)
}

func (c *Coordinator) otherInstance(found *Snapshot, prefix string) string {
	for key := range found.Entries {
		if at := c.keys.split(key); len(at) == 3 && at[0] == "instances" && at[1] == prefix && at[2] != c.name {
			return at[2]
		}
	}
	return ""
}

// deny makes the deny list of this instance what its settings say.
func (c *Coordinator) deny(found *Snapshot, to Settings) []Operation {
	var operations []Operation
	for key := range found.Entries {
		if at := c.keys.split(key); len(at) == 3 && at[0] == "denied" && at[1] == to.Prefix && !slices.Contains(to.Denied, at[2]) {
			operations = append(operations, Delete(key))
		}
	}
	for _, name := range to.Denied {
		if key := c.keys.denied(to.Prefix, name); found.Entries[key].Version == 0 {
			operations = append(operations, Put(key, ""))
		}
	}
	return operations
}

// migrate takes the entries along. What was acted upon already is left behind: at another key it would count as
// something new to do. What is being acted upon is not ready for it a second time, until its instance has looked.
func (c *Coordinator) migrate(found *Snapshot, from, to string) []Operation {
	acted, acting := c.keys.acted(found)
	operations := []Operation{Delete(c.keys.changes(from)), Delete(c.keys.instances(from, c.name))}
	left := map[string]bool{}
	for key, entry := range found.Entries {
		at := c.keys.split(key)
		if len(at) != 3 || at[1] != from || at[0] == "instances" {
			continue
		}
		if path := c.keys.join(at[0], from); !left[path] { // of what is empty nothing has to be deleted: stores count
			left[path] = true
			operations = append(operations, DeleteBelow(path))
		}
		if at[0] == "denied" || acted[key] == entry.Version || acting[key] {
			continue
		}
		at[1] = to
		operations = append(operations, Put(c.keys.root+"/"+strings.Join(at, "/"), entry.Value))
	}
	return operations
}

// ErrAlive is returned when what is to be forgotten belongs to an instance that is alive.
var ErrAlive = errors.New("an instance of this prefix is alive")

// Forget removes all that instances with a prefix have written which will never return. It is the one case in
// which somebody writes below a prefix that is not his own; as long as one of them lives, nothing is removed.
func Forget(ctx context.Context, store Store, root, system, prefix string) error {
	if err := checkSegment("the prefix", prefix); err != nil {
		return err
	}
	view, err := Look(ctx, store, root, system)
	if err != nil {
		return err
	}
	if view.Takes(prefix) {
		return fmt.Errorf("%w: end it, or set it to local mode, which cleans up: %s", ErrAlive, prefix)
	}
	k := newKeys(cmp.Or(root, DefaultRoot), system)
	t := Transaction{
		// One that comes back meanwhile registers, and then its entries are its own again.
		If:   []Condition{NotWritten(k.instances(prefix), view.Revision)},
		Then: []Operation{Delete(k.changes(prefix))},
	}
	for _, path := range k.ownedBy(prefix) {
		t.Then = append(t.Then, DeleteBelow(path))
	}
	if _, err := store.Commit(ctx, t); err != nil {
		return fmt.Errorf("forgetting %s of %s: %w", prefix, system, err)
	}
	return nil
}
