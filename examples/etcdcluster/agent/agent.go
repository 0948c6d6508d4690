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

// Options say what an agent is for.
type Options struct {
	// Dir is where it keeps what it remembers, and the members their data. No two agents have the same.
	Dir string
	// Etcd is the path of the etcd binary.
	Etcd string
	// Versions is a folder with others, as <version>/etcd, for members that want one of them.
	Versions string
	// Region is the one whose members it runs.
	Region string
	// Ports are those that members get, in their order. By default they get any that are free.
	Ports PortRange
	// Peers are the TLS files for peer connections. Members that were created without TLS keep their addresses, and are dialed without
	// TLS until they are replaced.
	Peers PeerTLS
	Log   logr.Logger
}

// Agent runs the members of a region.
type Agent struct {
	options Options
	folder  folder
	locked  *os.File
	etcds   versions

	// orders makes them one at a time. A token is looked at when it is an order's turn: one that waited while a
	// higher token came is refused.
	orders sync.Mutex

	// mu is for what follows, and is held for moments only.
	mu       sync.Mutex
	identity identity
	members  map[string]*member
	closed   bool
}

type member struct {
	record
	keeper       *keeper
	client, peer *port
}

// New starts all that should run according to the folder.
func New(options Options) (*Agent, error) {
	a := &Agent{options: options, folder: folder(options.Dir), etcds: newVersions(options.Etcd, options.Versions), members: map[string]*member{}}
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("opening the agent's folder %s: %w", options.Dir, err)
	}
	for _, m := range a.members {
		switch m.Phase {
		case Running:
			a.launch(m)
		case Deleting:
			if err := a.finishDelete(m); err != nil {
				a.options.Log.Error(err, "Cannot finish deleting a member, it has to be ordered again", "member", m.ID)
			}
		case Prepared, Stopped, deleted:
		}
	}
	return a, nil
}

// Close ends all processes, and returns when they have ended. They are started again by the next agent.
func (a *Agent) Close() error {
	a.orders.Lock()
	defer a.orders.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	var ending sync.WaitGroup
	for _, m := range a.members {
		ending.Go(m.keeper.stop)
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
	if err := errors.Join(a.takeOver(), a.remember()); err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

// takeOver makes the folder this agent's own.
func (a *Agent) takeOver() error {
	if err := lock(a.locked); err != nil {
		return fmt.Errorf("another agent uses it: stop that one first, or give each its own --dir (%w)", err)
	}
	found, err := a.folder.loadIdentity()
	if err != nil {
		return err
	}
	if found.Region != "" && found.Region != a.options.Region {
		return fmt.Errorf("it belongs to the agent of region %s, not %s: give each region its own --dir", found.Region, a.options.Region)
	}
	a.identity = identity{Region: a.options.Region, Tokens: found.Tokens, Token: found.Token}
	return a.folder.saveIdentity(a.identity)
}

func (a *Agent) remember() error {
	records, err := a.folder.load()
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.PeerTLS && r.Phase != deleted && !a.options.Peers.enabled() {
			return fmt.Errorf("the others dial %s with TLS: give the agent the files for it again", r.ID)
		}
		m := &member{record: r}
		if r.Phase != deleted {
			m.client, m.peer = a.holdAgain(r, r.ClientPort), a.holdAgain(r, r.PeerPort)
		}
		a.members[r.ID] = m
	}
	return nil
}

// holdAgain does without a port that somebody else holds by now: if it is really taken, etcd will say so.
func (a *Agent) holdAgain(r record, number int) *port {
	held, err := hold(number)
	if err != nil {
		a.options.Log.Info("Somebody else may have taken the port of a member", "member", r.ID, "port", number, "reason", err.Error())
		return nil
	}
	return held
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
	process := m.keeper.look()
	return Member{
		ID: m.ID, Region: a.options.Region, System: m.System, ClientURL: m.clientURL(), PeerURL: m.peerURL(),
		Phase: m.Phase, Args: m.Args, Applied: m.Applied, Version: m.Version, AppliedVersion: m.AppliedVersion, LastOrder: m.LastOrder,
		Running: process.pid != 0, PID: process.pid, Since: process.since, Crashes: process.crashes, Problem: process.problem,
	}
}

// Prepare gives a member of a system its addresses.
func (a *Agent) Prepare(id, system string) (Member, error) {
	if err := checkID(id); err != nil {
		return Member{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.members[id]
	if m != nil && m.Phase != deleted {
		if m.System != system {
			return Member{}, refuse(ReasonTaken, "the member %s is one of the system %q: choose another prefix for those of %.80q", id, m.System, system)
		}
		return a.describe(m), notDeleting(m)
	}
	fresh := &member{record: record{ID: id, System: system, Phase: Prepared, PeerTLS: a.options.Peers.enabled()}}
	if m != nil {
		fresh.LastOrder = m.LastOrder // an order to delete the old one is none to delete this one
	}
	var err, err2 error
	fresh.client, err = a.options.Ports.free()
	fresh.peer, err2 = a.options.Ports.free()
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
	a.options.Log.Info("Prepared a member", "member", id, "client", fresh.clientURL(), "peer", fresh.peerURL())
	return a.describe(fresh), nil
}

// SetArgs sets the arguments for the next start or restart that is ordered.
func (a *Agent) SetArgs(id string, args map[string]string) (Member, error) {
	if err := checkArgs(args); err != nil {
		return Member{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.known(id)
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

// SetVersion sets the version of etcd for the next start or restart that is ordered.
func (a *Agent) SetVersion(id, version string) (Member, error) {
	if err := a.etcds.check(version); err != nil {
		return Member{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.known(id)
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

// known returns a member that was prepared.
func (a *Agent) known(id string) (*member, error) {
	m := a.members[id]
	if m == nil || m.Phase == deleted {
		return nil, refuse(ReasonNotPrepared, "there is no member %.80q in region %s: prepare it first", id, a.options.Region)
	}
	return m, nil
}

func notDeleting(m *member) error {
	if m.Phase == Deleting {
		return refuse(ReasonDeleting, "the member %s is being deleted: wait, or order it again", m.ID)
	}
	return nil
}

// save changes what is remembered of a member, on disk first.
func (a *Agent) save(m *member, change func(*record)) error {
	changed := m.record
	change(&changed)
	if err := a.folder.save(changed); err != nil {
		return fmt.Errorf("remembering %s: %w", m.ID, err)
	}
	m.record = changed
	return nil
}
