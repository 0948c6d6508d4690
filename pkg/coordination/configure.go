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
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

var (
	// ErrPrefixTaken is returned when another live participant has the prefix.
	ErrPrefixTaken = errors.New("another participant has this prefix")
	// errSuperseded is returned to a process while a newer process of the same participant is alive. Only the newer one
	// works; this one may still finish orders that it has accepted.
	errSuperseded = errors.New("a newer process of this participant is alive")
	// errOtherProcess is returned to a process that leaves while another process of its participant is alive. The other one is usually older,
	// but a process in local mode is not registered, so neither knows.
	errOtherProcess = errors.New("another process of this participant is alive")
)

// Instance is the registration of a live process of a participant.
type Instance struct {
	Name       string `json:"name"`
	Prefix     string `json:"prefix"`
	Mode       Mode   `json:"mode"`
	Generation int64  `json:"generation,omitempty"`
	// Session is the ID of the process's session.
	Session string `json:"session,omitempty"`
	// JoinedAt is the revision of the store at which the process joined. Of two processes of a participant only the newer works.
	JoinedAt int64 `json:"started,omitempty"`
}

// Participant is the published settings of a participant. The record stays when its processes end, until the participant leaves.
type Participant struct {
	Name       string            `json:"name"`
	Prefix     string            `json:"prefix"`
	Generation int64             `json:"generation,omitempty"`
	Expected   []string          `json:"expected,omitempty"`
	Policy     Policy            `json:"policy,omitzero"`
	Policies   map[Action]Policy `json:"policies,omitempty"`
}

// configure applies settings and registers this participant. It is called in every reconcile, and writes only if something has
// changed. A new prefix moves all entries of this participant in one transaction. A change to local mode removes them and the lock in
// one transaction.
func (c *Coordinator) configure(ctx context.Context, to Settings) error {
	if to.Mode == "" {
		to.Mode = Local
	}
	if err := to.check(); err != nil {
		return fmt.Errorf("configuring %s in %s: %w", c.name, c.system, err)
	}
	if err := c.releaseUncertainLock(ctx); err != nil {
		return err
	}
	to = to.clone()
	do := c.register
	if to.Mode != Global {
		do = c.unregister
	}
	if err := c.retry(ctx, func() error { return do(ctx, to) }); err != nil {
		return fmt.Errorf("coordinating %s: %w", c.system, err)
	}
	c.mu.Lock()
	left := c.settings.Mode == Global && to.Mode != Global
	c.settings = to
	c.mu.Unlock()
	if left {
		c.closeIdleSession(ctx)
	}
	return nil
}

// recheckInterval is the interval at which a process in local mode checks that the store has no entry of its participant: an older
// process that hung may have resumed and written one.
const recheckInterval = time.Minute

// unregister removes the entries of this participant, also those of an earlier process that died before it removed them. It returns
// errOtherProcess while another process is alive, which would write them again. If another participant has taken the prefix since,
// the entries below it are the other participant's.
func (c *Coordinator) unregister(ctx context.Context, _ Settings) error {
	if c.hasRecentlyLeft() {
		return nil
	}
	found, err := c.store.Read(ctx, c.keys.root)
	if err != nil {
		return err
	}
	view, err := c.keys.view(found)
	if err != nil {
		return err
	}
	prefixes := c.ownPrefixes(found)
	for _, prefix := range prefixes {
		if accepted := view.acceptedBy(prefix); len(accepted) > 0 {
			c.adoptPrefix(prefix)
			return fmt.Errorf("leaving: the order to %s: %w; it is carried out first", view.Intent.step(), ErrAccepted)
		}
	}
	session, started := c.registeredAs(found)
	if newer := c.newerProcess(found, session, started); newer != nil {
		return c.deregisterSuperseded(ctx, found, newer)
	}
	for _, process := range c.keys.processes(found) {
		if process.Name == c.name && !c.isOwnSession(process.Session) {
			return fmt.Errorf("leaving: %w: its session is %s; end it first", errOtherProcess, process.Session)
		}
	}
	t := kv.Transaction{If: []kv.Condition{
		kv.NotWritten(c.keys.instances(), found.Revision), // also under no other prefix
		kv.IsAt(c.keys.intent(), found.Entries[c.keys.intent()].Version),
	}}
	for _, prefix := range prefixes {
		t.If = append(t.If, c.prefixUnchanged(found, prefix))
		t.Then = append(t.Then, kv.DeleteBelow(c.keys.instances(prefix, c.name)))
		if c.otherParticipant(found, prefix) == "" {
			t.Then = append(t.Then, kv.Delete(c.keys.changes(prefix)))
			for _, path := range c.keys.pathsOwnedBy(found, prefix) {
				t.Then = append(t.Then, kv.DeleteBelow(path))
			}
		}
	}
	if held := found.Entries[c.keys.lock()]; len(prefixes) > 0 && held.Version != 0 && c.isOwnLock(held) {
		t.If = append(t.If, kv.IsAt(c.keys.lock(), held.Version))
		t.Then = append(t.Then, kv.Delete(c.keys.lock()))
		c.endGrant()
	}
	if others := slices.ContainsFunc(view.Participants, func(p Participant) bool { return p.Name != c.name }); view.Intent != nil && len(prefixes) > 0 && !others {
		t.Then = append(t.Then, kv.Delete(c.keys.intent())) // no other participant can continue it
	}
	if len(t.Then) > 0 {
		if _, err := c.store.Commit(ctx, t); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.registered, c.leftAt = registration{}, c.clock.Now()
	c.mu.Unlock()
	return nil
}

// recheckOwnEntries makes the next configure in local mode read the store.
func (c *Coordinator) recheckOwnEntries() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leftAt = time.Time{}
}

// deregisterSuperseded removes the registration of this process, which is not the newest one of its participant: otherwise the newer
// process would have to wait for it before it can leave.
func (c *Coordinator) deregisterSuperseded(ctx context.Context, found *kv.Snapshot, newer *Instance) error {
	for _, process := range c.keys.processes(found) {
		if key := c.keys.instances(process.Prefix, process.Name, process.Session); process.Name == c.name && c.isOwnSession(process.Session) {
			t := kv.Transaction{If: []kv.Condition{kv.IsAt(key, found.Entries[key].Version)}, Then: []kv.Operation{kv.Delete(key)}}
			if _, err := c.store.Commit(ctx, t); err != nil {
				return err
			}
		}
	}
	return c.superseded(newer)
}

// superseded returns errSuperseded, and invalidates the registration: the newer process may have moved or removed the entries.
func (c *Coordinator) superseded(newer *Instance) error {
	c.invalidateRegistration()
	return fmt.Errorf("%w: %s, of session %s; stop one of the two, or rename this participant", errSuperseded, c.name, newer.Session)
}

// invalidateRegistration makes the next configure in global mode register this process.
func (c *Coordinator) invalidateRegistration() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registered.written = false
}

// ownPrefixes returns the prefixes with entries of this participant: according to the store, and the prefix that this process used last.
// There are several if an older process has resumed after a newer one had moved the entries to another prefix.
func (c *Coordinator) ownPrefixes(found *kv.Snapshot) []string {
	owners, prefixes := c.keys.owners(found), map[string]bool{}
	for prefix, owner := range owners {
		prefixes[prefix] = owner == c.name
	}
	if holds := c.currentSettings(); holds.Mode == Global && owners[holds.Prefix] == "" {
		prefixes[holds.Prefix] = true
	}
	maps.DeleteFunc(prefixes, func(_ string, own bool) bool { return !own })
	return sortedKeys(prefixes)
}

// owners returns the names of the registered participants by prefix.
func (k keys) owners(found *kv.Snapshot) map[string]string {
	owners := map[string]string{}
	for key, entry := range found.Entries {
		segments, record := k.split(key), Participant{}
		if len(segments) == 2 && segments[0] == kindParticipants && json.Unmarshal([]byte(entry.Value), &record) == nil {
			owners[segments[1]] = record.Name
		}
	}
	return owners
}

// adoptPrefix adopts the prefix of an earlier process that had accepted an order: this process answers the order.
func (c *Coordinator) adoptPrefix(prefix string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settings.Mode != Global || c.settings.Prefix != prefix {
		c.settings = Settings{Mode: Global, Prefix: prefix}
	}
}

// hasRecentlyLeft reports whether this process has recently checked that the store has no entry of its participant. It does not check
// while it carries out an action in local mode: it finishes the action under its lock.
func (c *Coordinator) hasRecentlyLeft() bool {
	if local, ok := c.currentRun.(*localRun); ok && local.holdsLock() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settings.Mode != Global && !c.leftAt.IsZero() && c.clock.Now().Sub(c.leftAt) < recheckInterval
}

// endGrant ends the grant of a lock that is about to be released together with all entries.
func (c *Coordinator) endGrant() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grant != nil {
		c.grant.cancel(context.Canceled)
	}
	c.lockUncertain = true
}

// registration is the registration of this process, as far as this process knows.
type registration struct {
	session string
	// started is the revision at which the process joined. A new session does not change it.
	started int64
	// written is set while the registration and the settings in the store are current.
	written bool
}

// register registers this process, and moves the entries of the participant to its prefix.
func (c *Coordinator) register(ctx context.Context, to Settings) error {
	session, err := c.openSession(ctx)
	if err != nil {
		return err
	}
	if c.isRegistered(session) && c.currentSettings().equal(to) {
		return nil
	}
	found, err := c.store.Read(ctx, c.keys.root)
	if err != nil {
		return err
	}
	// Also if the prefix stays: another participant may have taken it while no process of this one was alive.
	if other := c.otherParticipant(found, to.Prefix); other != "" {
		return fmt.Errorf("%w: %q is the prefix of %s: choose another one", ErrPrefixTaken, to.Prefix, other)
	}
	_, started := c.registeredAs(found)
	if newer := c.newerProcess(found, session.ID(), started); newer != nil {
		return c.superseded(newer)
	}
	instance := Instance{
		Name: c.name, Prefix: to.Prefix, Mode: to.Mode, Generation: to.Generation, Session: session.ID(), JoinedAt: started,
	}
	t := kv.Transaction{
		If: []kv.Condition{
			c.prefixUnchanged(found, to.Prefix),
			kv.NotWritten(c.keys.instances(to.Prefix), found.Revision), // no other participant registers in between
		},
		Then: append(c.denyOperations(found, to), kv.PutFor(session, c.keys.instances(to.Prefix, c.name, session.ID()), encode(instance))),
	}
	if record := encode(to.participant(c.name)); found.Entries[c.keys.participants(to.Prefix)].Value != record {
		t.Then = append(t.Then, kv.Put(c.keys.participants(to.Prefix), record))
	}
	incomplete := decodeMarker(found.Entries[c.keys.changes(to.Prefix)].Value).Incomplete
	if from := slices.DeleteFunc(c.ownPrefixes(found), func(prefix string) bool { return prefix == to.Prefix }); len(from) > 0 {
		t.If = append(t.If,
			kv.NotWritten(c.keys.instances(), found.Revision),
			kv.NotWritten(c.keys.done(), found.Revision),
			kv.IsAt(c.keys.intent(), found.Entries[c.keys.intent()].Version))
		for _, prefix := range from {
			t.If = append(t.If, c.prefixUnchanged(found, prefix))
			incomplete = incomplete || decodeMarker(found.Entries[c.keys.changes(prefix)].Value).Incomplete
		}
		t.Then = append(t.Then, c.migrateOperations(found, from, to.Prefix)...)
		t.Then = append(t.Then, c.deregisterOperations(found, from)...)
	}
	if len(t.Then) > 1 { // not for a registration alone
		t.Then = append(t.Then, c.writeMarker(to.Prefix, incomplete))
	}
	if _, err := c.store.Commit(ctx, t); err != nil {
		c.invalidateRegistration() // it is unknown which settings are written
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registered, c.leftAt = registration{session: session.ID(), started: started, written: true}, time.Time{}
	return nil
}

// participant returns the part of the settings that is published.
func (s Settings) participant(name string) Participant {
	return Participant{
		Name: name, Prefix: s.Prefix, Generation: s.Generation, Expected: s.Expected, Policy: s.Policy, Policies: s.Policies,
	}
}

// isRegistered reports whether this process is registered with a session, as far as it knows.
func (c *Coordinator) isRegistered(session kv.Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered.written && c.registered.session == session.ID()
}

// registeredAs returns the session with which this process is registered, and the revision at which it joined first, or the revision of
// the snapshot if it has never joined. If the write of the registration had an unknown outcome, only the store has that revision.
func (c *Coordinator) registeredAs(found *kv.Snapshot) (session string, started int64) {
	written := int64(0)
	for _, process := range c.keys.processes(found) {
		if process.Name == c.name && c.isOwnSession(process.Session) {
			written = process.JoinedAt
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered.session, cmp.Or(c.registered.started, written, found.Revision)
}

// newerProcess returns a process of this participant that joined later, or nil.
func (c *Coordinator) newerProcess(found *kv.Snapshot, session string, started int64) *Instance {
	for _, instance := range c.keys.processes(found) {
		if instance.Name == c.name && instance.Session != session && !c.isOwnSession(instance.Session) && instance.newer(Instance{JoinedAt: started, Session: session}) {
			return &instance
		}
	}
	return nil
}

// isOwnSession reports whether a session is or was a session of this process. A lost session may not have ended yet, and a
// registration may have been written although this process got an error.
func (c *Coordinator) isOwnSession(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lostSessions[session] || session == c.registered.session || c.session != nil && session == c.session.ID()
}

// newer reports whether a process of a participant is newer than another one.
func (i Instance) newer(other Instance) bool {
	return cmp.Or(cmp.Compare(i.JoinedAt, other.JoinedAt), strings.Compare(i.Session, other.Session)) > 0
}

// processes returns all live processes, the newest of each participant first.
func (k keys) processes(found *kv.Snapshot) []Instance {
	var all []Instance
	for key, entry := range found.Entries {
		segments, instance := k.split(key), Instance{}
		if len(segments) != 4 || segments[0] != kindInstances || json.Unmarshal([]byte(entry.Value), &instance) != nil {
			continue
		}
		instance.Prefix, instance.Name, instance.Session = segments[1], segments[2], segments[3]
		all = append(all, instance)
	}
	slices.SortFunc(all, func(a, b Instance) int {
		return cmp.Or(strings.Compare(a.Prefix, b.Prefix), strings.Compare(a.Name, b.Name), cmp.Compare(b.JoinedAt, a.JoinedAt), strings.Compare(b.Session, a.Session))
	})
	return all
}

// verifyRegistration invalidates the registration if a view differs from it: another process has removed it, a newer process of the
// participant works, or an older one has written entries below another prefix. The next configure then registers again.
func (c *Coordinator) verifyRegistration(view *View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.registered.written {
		return
	}
	own := Instance{Session: c.registered.session, JoinedAt: c.registered.started}
	registered := false
	for _, process := range view.processes {
		registered = registered || process.Session == own.Session && process.Prefix == c.settings.Prefix
		c.registered.written = c.registered.written && (process.Name != c.name || c.lostSessions[process.Session] || !process.newer(own))
	}
	var prefixes []string
	for _, participant := range view.Participants {
		if participant.Name == c.name {
			prefixes = append(prefixes, participant.Prefix)
		}
	}
	registered = registered && slices.Equal(prefixes, []string{c.settings.Prefix})
	c.registered.written = c.registered.written && registered
}

// prefixUnchanged returns the condition that no entry of a prefix has changed since the snapshot.
func (c *Coordinator) prefixUnchanged(found *kv.Snapshot, prefix string) kv.Condition {
	marker := c.keys.changes(prefix)
	return kv.IsAt(marker, found.Entries[marker].Version)
}

// otherParticipant returns the name of another live participant with a prefix, or "".
func (c *Coordinator) otherParticipant(found *kv.Snapshot, prefix string) string {
	for _, instance := range c.keys.processes(found) {
		if instance.Prefix == prefix && instance.Name != c.name {
			return instance.Name
		}
	}
	return ""
}

// denyOperations returns the operations that make the deny list of this participant equal to its settings.
func (c *Coordinator) denyOperations(found *kv.Snapshot, to Settings) []kv.Operation {
	var operations []kv.Operation
	for key := range found.Entries {
		if segments := c.keys.split(key); len(segments) == 3 && segments[0] == kindDenied && segments[1] == to.Prefix && !slices.Contains(to.Denied, segments[2]) {
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

// deregisterOperations returns the operations that remove the registrations of this process below other prefixes. Older processes stay
// registered: they may be carrying out accepted orders.
func (c *Coordinator) deregisterOperations(found *kv.Snapshot, from []string) (operations []kv.Operation) {
	for _, process := range c.keys.processes(found) {
		if process.Name == c.name && slices.Contains(from, process.Prefix) && c.isOwnSession(process.Session) {
			operations = append(operations, kv.Delete(c.keys.instances(process.Prefix, process.Name, process.Session)))
		}
	}
	return operations
}

// migrateOperations returns the operations that move the entries to another prefix. A need that is done is not moved: at another key it
// would count as new. A need in progress is moved without its ready entry, so that the action does not begin for it again before the
// participant has determined its needs.
func (c *Coordinator) migrateOperations(found *kv.Snapshot, from []string, to string) []kv.Operation {
	done, running := c.keys.doneAndRunning(found)
	var operations []kv.Operation
	for _, prefix := range from {
		if c.otherParticipant(found, prefix) != "" {
			continue // another participant has this prefix now
		}
		operations = append(operations, kv.Delete(c.keys.changes(prefix)))
		for _, path := range c.keys.pathsOwnedBy(found, prefix) {
			operations = append(operations, kv.DeleteBelow(path))
		}
		for _, key := range slices.Sorted(maps.Keys(found.Entries)) {
			segments, entry := c.keys.split(key), found.Entries[key]
			if len(segments) != 3 || segments[1] != prefix || segments[0] != kindAnswers && !Set(segments[0]).known() || done[key] == entry.Version || running[key] {
				continue
			}
			segments[1] = to
			moved := kv.Put(c.keys.root+"/"+strings.Join(segments, "/"), entry.Value)
			taken := slices.ContainsFunc(operations, func(o kv.Operation) bool { return o.Key == moved.Key })
			if existing := found.Entries[moved.Key]; !taken && (existing.Version == 0 || segments[0] == kindAnswers && existing.Version < entry.Version) {
				operations = append(operations, moved)
			}
		}
	}
	return operations
}
