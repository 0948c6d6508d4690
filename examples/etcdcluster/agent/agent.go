//go:build unix

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// Options configure an agent.
type Options struct {
	// Dir is the folder for the agent's state and the members' data. Each agent needs its own.
	Dir string
	// Etcd is the path of the etcd binary.
	Etcd string
	// Versions is a folder with other versions, as <version>/etcd.
	Versions string
	// Region is the region of the members.
	Region string
	// Ports are the ports for members, in order. By default any free ports are used.
	Ports PortRange
	// Peers are the TLS files for peer connections. Members that were created without TLS keep their addresses, and
	// are dialed without TLS until they are replaced.
	Peers PeerTLS
	Log   logr.Logger
}

// Agent runs the members of a region.
type Agent struct {
	options  Options
	folder   folder
	locked   *os.File
	versions versions

	// orderMu serializes orders. The token is checked when it is an order's turn, so that an order that waited
	// while a higher token came is refused.
	orderMu sync.Mutex

	// mu protects the following fields. It is held only briefly.
	mu       sync.Mutex
	identity identity
	members  map[string]*member
	closed   bool
}

type member struct {
	record
	supervisor   *supervisor
	client, peer *port
}

// New returns an agent, and starts all members that should run.
func New(options Options) (*Agent, error) {
	a := &Agent{options: options, folder: folder(options.Dir), versions: newVersions(options.Etcd, options.Versions), members: map[string]*member{}}
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("opening the agent's folder %s: %w", options.Dir, err)
	}
	for _, m := range a.members {
		switch m.Phase {
		case Running:
			a.launch(m)
		case Deleting:
			if err := a.finishDelete(m); err != nil {
				a.options.Log.Error(err, "Failed to finish the deletion of a member, repeat the order", "member", m.ID)
			}
		case Prepared, Stopped, deleted:
		}
	}
	return a, nil
}

// Close stops all processes and waits for them. The next agent starts them again.
func (a *Agent) Close() error {
	a.orderMu.Lock()
	defer a.orderMu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	var ending sync.WaitGroup
	for _, m := range a.members {
		ending.Go(m.supervisor.stop)
	}
	ending.Wait()
	for _, m := range a.members {
		m.client.release()
		m.peer.release()
	}
	return a.locked.Close()
}

func (a *Agent) open() error {
	if _, err := os.Stat(a.options.Etcd); err != nil {
		return fmt.Errorf("finding etcd: %w", err)
	}
	if err := a.options.Peers.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(a.options.Dir, membersFolder), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(a.options.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	a.locked = file
	if err := errors.Join(a.lockFolder(), a.loadMembers()); err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

// lockFolder locks the folder for this agent.
func (a *Agent) lockFolder() error {
	if err := lock(a.locked); err != nil {
		return fmt.Errorf("another agent uses the folder: stop it first, or use another --dir (%w)", err)
	}
	found, err := a.folder.loadIdentity()
	if err != nil {
		return err
	}
	if found.Region != "" && found.Region != a.options.Region {
		return fmt.Errorf("the folder belongs to region %s, not %s: use another --dir for each region", found.Region, a.options.Region)
	}
	a.identity = identity{Region: a.options.Region, Tokens: found.Tokens, Token: found.Token}
	return a.folder.saveIdentity(a.identity)
}

func (a *Agent) loadMembers() error {
	records, err := a.folder.load()
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.PeerTLS && r.Phase != deleted && !a.options.Peers.enabled() {
			return fmt.Errorf("member %s has a TLS peer address: set --peer-cert, --peer-key and --peer-ca again", r.ID)
		}
		m := &member{record: r}
		if r.Phase != deleted {
			m.client, m.peer = a.reservePort(r, r.ClientPort), a.reservePort(r, r.PeerPort)
		}
		a.members[r.ID] = m
	}
	return nil
}

// reservePort continues without a reservation if it fails: if another process listens on the port, etcd reports
// it.
func (a *Agent) reservePort(r record, number int) *port {
	reserved, err := reservePort(number)
	if err != nil {
		a.options.Log.Info("Failed to reserve the port of a member, another process may use it", "member", r.ID, "port", number, "reason", err.Error())
		return nil
	}
	return reserved
}

// List returns all members, sorted by their IDs.
func (a *Agent) List() []Member {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []Member{}
	for _, m := range a.members {
		if m.Phase != deleted {
			list = append(list, a.describe(m))
		}
	}
	slices.SortFunc(list, func(x, y Member) int { return strings.Compare(x.ID, y.ID) })
	return list
}

func (a *Agent) describe(m *member) Member {
	process := m.supervisor.status()
	return Member{
		ID: m.ID, Region: a.options.Region, System: m.System, ClientURL: m.clientURL(), PeerURL: m.peerURL(),
		Phase: m.Phase, Args: m.Args, Applied: m.Applied, Version: m.Version, AppliedVersion: m.AppliedVersion, LastOrder: m.LastOrder,
		Running: process.pid != 0, PID: process.pid, Since: process.since, Crashes: process.crashes, Problem: process.problem,
	}
}

// Prepare assigns addresses to a member of a system.
func (a *Agent) Prepare(id, system string) (Member, error) {
	if err := checkID(id); err != nil {
		return Member{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.members[id]
	if m != nil && m.Phase != deleted {
		if m.System != system {
			return Member{}, refuse(ReasonTaken, "member %s belongs to system %q: choose another prefix for members of %.80q", id, m.System, system)
		}
		return a.describe(m), notDeleting(m)
	}
	fresh := &member{record: record{ID: id, System: system, Phase: Prepared, PeerTLS: a.options.Peers.enabled()}}
	if m != nil {
		fresh.LastOrder = m.LastOrder // an order to delete the former member must not delete this one
	}
	var err, err2 error
	fresh.client, err = a.options.Ports.reserveFree()
	fresh.peer, err2 = a.options.Ports.reserveFree()
	if err = errors.Join(err, err2); err == nil {
		fresh.ClientPort, fresh.PeerPort = fresh.client.number, fresh.peer.number
		err = a.folder.save(fresh.record)
	}
	if err != nil {
		fresh.client.release()
		fresh.peer.release()
		return Member{}, fmt.Errorf("preparing %s: %w", id, err)
	}
	a.members[id] = fresh
	a.options.Log.Info("Prepared member", "member", id, "client", fresh.clientURL(), "peer", fresh.peerURL())
	return a.describe(fresh), nil
}

// SetArgs sets the arguments for the next ordered start or restart.
func (a *Agent) SetArgs(id string, args map[string]string) (Member, error) {
	if err := checkArgs(args); err != nil {
		return Member{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.find(id)
	if err != nil {
		return Member{}, err
	}
	if err := notDeleting(m); err != nil {
		return Member{}, err
	}
	if sameArgs(m.Args, args) {
		return a.describe(m), nil
	}
	if err := a.save(m, func(r *record) { r.Args = args }); err != nil {
		return Member{}, err
	}
	return a.describe(m), nil
}

// SetVersion sets the version of etcd for the next ordered start or restart.
func (a *Agent) SetVersion(id, version string) (Member, error) {
	if err := a.versions.check(version); err != nil {
		return Member{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.find(id)
	if err == nil {
		err = notDeleting(m)
	}
	if err == nil && m.Version != version {
		err = a.save(m, func(r *record) { r.Version = version })
	}
	if err != nil {
		return Member{}, err
	}
	return a.describe(m), nil
}

// find returns a member that exists.
func (a *Agent) find(id string) (*member, error) {
	m := a.members[id]
	if m == nil || m.Phase == deleted {
		return nil, refuse(ReasonNotPrepared, "member %.80q not found in region %s: prepare it first", id, a.options.Region)
	}
	return m, nil
}

func notDeleting(m *member) error {
	if m.Phase == Deleting {
		return refuse(ReasonDeleting, "member %s is being deleted: wait, or repeat the order", m.ID)
	}
	return nil
}

// save changes the record of a member, on disk first.
func (a *Agent) save(m *member, change func(*record)) error {
	changed := m.record
	change(&changed)
	if err := a.folder.save(changed); err != nil {
		return fmt.Errorf("saving the record of %s: %w", m.ID, err)
	}
	m.record = changed
	return nil
}
