package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// The folder of an agent:
//
//	agent.json                 whose agent it is, and the highest token of each system
//	members/<id>/member.json   what is wanted of the member
//	members/<id>/data          etcd's own
//	members/<id>/etcd.log      what etcd wrote
const (
	agentFile     = "agent.json"
	membersFolder = "members"
	memberFile    = "member.json"
	dataFolder    = "data"
	logFile       = "etcd.log"
)

// deleted is the phase of a member that is gone. What is left of it is the last order, so that the order to delete it
// does not hit another member that gets its ID later.
const deleted Phase = "Deleted"

// record is what the agent remembers of a member. It is written before anything is done.
type record struct {
	ID         string `json:"id"`
	System     string `json:"system,omitempty"`
	ClientPort int    `json:"clientPort,omitempty"`
	PeerPort   int    `json:"peerPort,omitempty"`
	// PeerTLS is that of its peer URL, which is kept for as long as the member is.
	PeerTLS bool              `json:"peerTLS,omitempty"`
	Phase   Phase             `json:"phase"`
	Args    map[string]string `json:"args,omitempty"`
	Applied map[string]string `json:"applied,omitempty"`
	Version string            `json:"version,omitempty"`
	// AppliedVersion is to Version what Applied is to Args.
	AppliedVersion string `json:"appliedVersion,omitempty"`
	Launch         Launch `json:"launch,omitzero"`
	LastOrder      string `json:"lastOrder,omitempty"`
}

// loopback is where all members are: the agent is for one machine.
const loopback = "127.0.0.1"

func (r record) clientURL() string { return "http://" + loopback + ":" + strconv.Itoa(r.ClientPort) }

func (r record) peerURL() string {
	scheme := "http"
	if r.PeerTLS {
		scheme = "https"
	}
	return scheme + "://" + loopback + ":" + strconv.Itoa(r.PeerPort)
}

// identity is what the agent remembers of itself.
type identity struct {
	Region string `json:"region"`
	// Tokens are the highest that it has seen, by system: each system counts its own.
	Tokens map[string]int64 `json:"tokens,omitempty"`
	// Token is what an agent of an earlier version has seen, of whichever system its members were.
	Token int64 `json:"token,omitempty"`
}

// folder is where an agent keeps what it remembers.
type folder string

func (f folder) member(id string) string { return filepath.Join(string(f), membersFolder, id) }

func (f folder) saveIdentity(of identity) error {
	return write(filepath.Join(string(f), agentFile), of)
}

func (f folder) loadIdentity() (identity, error) {
	var found identity
	err := read(filepath.Join(string(f), agentFile), &found)
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, nil
	}
	return found, err
}

func (f folder) save(r record) error {
	if err := os.MkdirAll(f.member(r.ID), 0o750); err != nil {
		return err
	}
	return write(filepath.Join(f.member(r.ID), memberFile), r)
}

// load reads all records. A folder without one is of a member that was never promised to anybody.
func (f folder) load() ([]record, error) {
	entries, err := os.ReadDir(filepath.Join(string(f), membersFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var records []record
	for _, entry := range entries {
		var r record
		err := read(filepath.Join(f.member(entry.Name()), memberFile), &r)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = os.RemoveAll(f.member(entry.Name()))
		case err == nil && r.ID != entry.Name():
			err = fmt.Errorf("the folder of %s says that it is %s's", entry.Name(), r.ID)
		case err == nil:
			records = append(records, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return records, nil
}

// removeData leaves of a member only its record.
func (f folder) removeData(id string) error {
	entries, err := os.ReadDir(f.member(id))
	for _, entry := range entries {
		if entry.Name() != memberFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(f.member(id), entry.Name())))
		}
	}
	return err
}

func read(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// write replaces a file so that it has either its old content or its new one, also after the power has failed.
func write(path string, what any) error {
	content, err := json.MarshalIndent(what, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	_, err = file.Write(append(content, '\n'))
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	opened, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
