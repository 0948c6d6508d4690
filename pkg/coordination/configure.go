package coordination

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

var (
	// ErrPrefixTaken is returned when another participant that is alive has the prefix.
	ErrPrefixTaken = errors.New("another participant has this prefix")
	// errSuperseded is returned to a process while a newer process of the same participant is alive. Only the newer one
	// works; this one may still finish what it has accepted.
	errSuperseded = errors.New("a newer process of this participant is alive")
)

// Instance is what a process of a participant says of itself while it lives.
type Instance struct {
	Name       string `json:"name"`
	Prefix     string `json:"prefix"`
	Mode       Mode   `json:"mode"`
	Generation int64  `json:"generation,omitempty"`
	// Session is that of the process.
	Session string `json:"session,omitempty"`
	// Started is the revision of the store at which the process joined. Of two processes of one participant the newer one works.
	Started int64 `json:"started,omitempty"`
}

// Participant is what a participant has told the others of itself. It stays when its processes end, until it leaves.
type Participant struct {
	Name       string            `json:"name"`
	Prefix     string            `json:"prefix"`
	Generation int64             `json:"generation,omitempty"`
	Expected   []string          `json:"expected,omitempty"`
	Policy     Policy            `json:"policy,omitzero"`
	Policies   map[Action]Policy `json:"policies,omitempty"`
}

// configure makes settings hold, and this participant known to the others. It is called in every reconcile; what
// holds already costs no write. A changed prefix takes all that this participant has written along, in one
// transaction. A change to local mode removes all of it, in one transaction, and gives the lock back.
func (c *Coordinator) configure(ctx context.Context, to Settings) error {
	if to.Mode == "" {
		to.Mode = Local
	}
	if err := to.check(); err != nil {
		return fmt.Errorf("configuring %s in %s: %w", c.name, c.system, err)
	}
	if err := c.giveBack(ctx); err != nil {
		return err
	}
	to = to.clone()
	from, err := c.applied(ctx)
	if err == nil {
		switch {
		case to.Mode == Global:
			err = c.retry(ctx, func() error { return c.enter(ctx, from, to) })
		case from.Mode == Global:
			err = c.retry(ctx, func() error { return c.leave(ctx, from) })
		}
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

// applied returns the settings that hold, those of an earlier process if this one has applied none: that one may have
// died before anybody noted what it had applied.
func (c *Coordinator) applied(ctx context.Context) (Settings, error) {
	c.mu.Lock()
	known, settings := c.known, c.settings.clone()
	c.mu.Unlock()
	if known {
		return settings, nil
	}
	found, err := c.store.Read(ctx, c.keys.participants(), c.keys.denied())
	if err != nil {
		return Settings{}, fmt.Errorf("reading what an earlier process has applied: %w", err)
	}
	settings = Settings{Mode: Local}
	for key, entry := range found.Entries {
		at, record := c.keys.split(key), Participant{}
		if len(at) == 2 && at[0] == kindParticipants && json.Unmarshal([]byte(entry.Value), &record) == nil && record.Name == c.name {
			settings = Settings{
				Mode: Global, Prefix: at[1], Generation: record.Generation, Expected: record.Expected, Policy: record.Policy, Policies: record.Policies,
			}
		}
	}
	for key := range found.Entries {
		if at := c.keys.split(key); len(at) == 3 && at[0] == kindDenied && at[1] == settings.Prefix {
			settings.Denied = append(settings.Denied, at[2])
		}
	}
	c.mu.Lock()
	c.settings, c.known = settings.clone(), true
	c.mu.Unlock()
	return settings, nil
}

// leave removes what this participant has written. If another participant has taken the prefix since, the entries below it
// are that one's.
func (c *Coordinator) leave(ctx context.Context, from Settings) error {
	found, err := c.store.Read(ctx, c.keys.root)
	if err != nil {
		return err
	}
	view, err := c.keys.view(found)
	if err != nil {
		return err
	}
	if accepted := view.acceptedBy(from.Prefix); len(accepted) > 0 {
		return fmt.Errorf("leaving: the order to %s: %w; it is carried out first", view.Intent.step(), ErrAccepted)
	}
	t := kv.Transaction{
		If: []kv.Condition{
			kv.NotWritten(c.keys.instances(from.Prefix), found.Revision), c.unchanged(found, from.Prefix),
			kv.IsAt(c.keys.intent(), found.Entries[c.keys.intent()].Version),
		},
		Then: []kv.Operation{kv.DeleteBelow(c.keys.instances(from.Prefix, c.name))},
	}
	if c.otherInstance(found, from.Prefix) == "" {
		t.Then = append(t.Then, kv.Delete(c.keys.changes(from.Prefix)))
		for _, path := range c.keys.ownedBy(found, from.Prefix) {
			t.Then = append(t.Then, kv.DeleteBelow(path))
		}
	}
	if held := found.Entries[c.keys.lock()]; held.Version != 0 && c.holds(held) {
		t.If = append(t.If, kv.IsAt(c.keys.lock(), held.Version))
		t.Then = append(t.Then, kv.Delete(c.keys.lock()))
		c.endGrant()
	}
	if _, err := c.store.Commit(ctx, t); err != nil {
		return err
	}
	c.mu.Lock()
	c.registered = registration{}
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

// registration is what was written of this process, and for which session.
type registration struct {
	session string
	// started is kept when a session is lost: the process is no newer for that.
	started int64
	written bool
}

// enter registers this process and moves what the participant has written to its prefix.
func (c *Coordinator) enter(ctx context.Context, from, to Settings) error {
	session, err := c.live(ctx)
	if err != nil {
		return err
	}
	if c.isRegistered(session) && from.equal(to) {
		return nil
	}
	found, err := c.store.Read(ctx, c.keys.root)
	if err != nil {
		return err
	}
	// Also if the prefix stays: another participant may have taken it while no process of this one was alive.
	if other := c.otherInstance(found, to.Prefix); other != "" {
		return fmt.Errorf("%w: %q is %s's; choose another one", ErrPrefixTaken, to.Prefix, other)
	}
	started := c.startedAt(found.Revision)
	if newer := c.newerProcess(found, session.ID(), started); newer != nil {
		return fmt.Errorf("%w: %s, of session %s; end one of both, or give this one another name", errSuperseded, c.name, newer.Session)
	}
	instance := Instance{
		Name: c.name, Prefix: to.Prefix, Mode: to.Mode, Generation: to.Generation, Session: session.ID(), Started: started,
	}
	t := kv.Transaction{
		If: []kv.Condition{
			c.unchanged(found, to.Prefix),
			kv.NotWritten(c.keys.instances(to.Prefix), found.Revision), // nobody else enters meanwhile
		},
		Then: append(c.deny(found, to), kv.PutFor(session, c.keys.instances(to.Prefix, c.name, session.ID()), encode(instance))),
	}
	if told := encode(to.told(c.name)); found.Entries[c.keys.participants(to.Prefix)].Value != told {
		t.Then = append(t.Then, kv.Put(c.keys.participants(to.Prefix), told))
	}
	moves := from.Mode == Global && from.Prefix != to.Prefix
	if moves && c.otherInstance(found, from.Prefix) != "" {
		moves = false // what is below the old prefix is another participant's by now
		t.If = append(t.If, kv.NotWritten(c.keys.instances(from.Prefix), found.Revision))
	}
	if moves {
		t.If = append(t.If, c.unchanged(found, from.Prefix), kv.NotWritten(c.keys.instances(from.Prefix), found.Revision),
			kv.NotWritten(c.keys.done(), found.Revision),
			kv.IsAt(c.keys.intent(), found.Entries[c.keys.intent()].Version))
		t.Then = append(t.Then, c.migrate(found, from.Prefix, to.Prefix)...)
	}
	if len(t.Then) > 1 { // not for a sign of life alone
		t.Then = append(t.Then, c.changed(found.Entries, to.Prefix))
	}
	if _, err := c.store.Commit(ctx, t); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registered = registration{session: session.ID(), started: started, written: true}
	return nil
}

// told is what the others are told of the settings.
func (s Settings) told(name string) Participant {
	return Participant{
		Name: name, Prefix: s.Prefix, Generation: s.Generation, Expected: s.Expected, Policy: s.Policy, Policies: s.Policies,
	}
}

// isRegistered tells whether this process is known to the others, as far as it has seen.
func (c *Coordinator) isRegistered(session kv.Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered.written && c.registered.session == session.ID()
}

// startedAt returns the revision at which this process joined first, the given one if it never has.
func (c *Coordinator) startedAt(now int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.registered.started, now)
}

// newerProcess returns a process of this participant that has joined after the one of a session.
func (c *Coordinator) newerProcess(found *kv.Snapshot, session string, started int64) *Instance {
	for _, instance := range c.keys.processes(found) {
		if instance.Name == c.name && instance.Session != session && !c.wasOwn(instance.Session) && instance.newer(Instance{Started: started, Session: session}) {
			return &instance
		}
	}
	return nil
}

// wasOwn tells whether a session was one of this process that it has lost: others may not yet have missed it.
func (c *Coordinator) wasOwn(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.former[session]
}

// newer orders the processes of a participant.
func (i Instance) newer(other Instance) bool {
	return cmp.Or(cmp.Compare(i.Started, other.Started), strings.Compare(i.Session, other.Session)) > 0
}

// processes returns all that are alive, the newest of a participant first.
func (k keys) processes(found *kv.Snapshot) []Instance {
	var all []Instance
	for key, entry := range found.Entries {
		at, instance := k.split(key), Instance{}
		if len(at) != 4 || at[0] != kindInstances || json.Unmarshal([]byte(entry.Value), &instance) != nil {
			continue
		}
		instance.Prefix, instance.Name, instance.Session = at[1], at[2], at[3]
		all = append(all, instance)
	}
	slices.SortFunc(all, func(a, b Instance) int {
		return cmp.Or(strings.Compare(a.Prefix, b.Prefix), strings.Compare(a.Name, b.Name), cmp.Compare(b.Started, a.Started), strings.Compare(b.Session, a.Session))
	})
	return all
}

// verify forgets what this process remembers of its registration if a view shows otherwise: somebody has removed it, or a
// newer process of the participant works. configure looks again then.
func (c *Coordinator) verify(view *View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.registered.written {
		return
	}
	own := Instance{Session: c.registered.session, Started: c.registered.started}
	there := false
	for _, process := range view.processes {
		there = there || process.Session == own.Session && process.Prefix == c.settings.Prefix
		c.registered.written = c.registered.written && (process.Name != c.name || c.former[process.Session] || !process.newer(own))
	}
	c.registered.written = c.registered.written && there
}

// unchanged is met while nothing of a prefix has changed since it was read.
func (c *Coordinator) unchanged(found *kv.Snapshot, prefix string) kv.Condition {
	marker := c.keys.changes(prefix)
	return kv.IsAt(marker, found.Entries[marker].Version)
}

func (c *Coordinator) otherInstance(found *kv.Snapshot, prefix string) string {
	for _, instance := range c.keys.processes(found) {
		if instance.Prefix == prefix && instance.Name != c.name {
			return instance.Name
		}
	}
	return ""
}

// deny makes the deny list of this participant what its settings say.
func (c *Coordinator) deny(found *kv.Snapshot, to Settings) []kv.Operation {
	var operations []kv.Operation
	for key := range found.Entries {
		if at := c.keys.split(key); len(at) == 3 && at[0] == kindDenied && at[1] == to.Prefix && !slices.Contains(to.Denied, at[2]) {
			operations = append(operations, kv.Delete(key))
		}
	}
	for _, name := range to.Denied {
		if key := c.keys.denied(to.Prefix, name); found.Entries[key].Version == 0 {
			operations = append(operations, kv.Put(key, ""))
		}
	}
	return operations
}

// migrate takes the entries along. What was acted upon already is left behind: at another key it would count as
// something new to do. What is being acted upon is not ready for it a second time, until its participant has looked.
func (c *Coordinator) migrate(found *kv.Snapshot, from, to string) []kv.Operation {
	acted, acting := c.keys.acted(found)
	operations := []kv.Operation{kv.Delete(c.keys.changes(from)), kv.DeleteBelow(c.keys.instances(from, c.name))}
	for _, path := range c.keys.ownedBy(found, from) {
		operations = append(operations, kv.DeleteBelow(path))
	}
	for _, key := range slices.Sorted(maps.Keys(found.Entries)) {
		at, entry := c.keys.split(key), found.Entries[key]
		if len(at) != 3 || at[1] != from || at[0] != kindAnswers && !Set(at[0]).known() || acted[key] == entry.Version || acting[key] {
			continue
		}
		at[1] = to
		operations = append(operations, kv.Put(c.keys.root+"/"+strings.Join(at, "/"), entry.Value))
	}
	return operations
}
