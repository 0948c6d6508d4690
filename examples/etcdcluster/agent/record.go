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
//	agent.json                 the region, and the highest token of each system
//	members/<id>/member.json   the record of the member
//	members/<id>/data          the data of etcd
//	members/<id>/etcd.log      the log of etcd
const (
	agentFile     = "agent.json"
	membersFolder = "members"
	memberFile    = "member.json"
	dataFolder    = "data"
	logFile       = "etcd.log"
)

// deleted is the phase of a deleted member. Its record keeps the last order, so that a repeated order to delete
// it does not affect a later member with the same ID.
const deleted Phase = "Deleted"

// record is the state of a member on disk. It is written before an order is carried out.
type record struct {
	ID         string `json:"id"`
	System     string `json:"system,omitempty"`
	ClientPort int    `json:"clientPort,omitempty"`
	PeerPort   int    `json:"peerPort,omitempty"`
	// PeerTLS is whether its peer URL has TLS. It never changes.
	PeerTLS bool              `json:"peerTLS,omitempty"`
	Phase   Phase             `json:"phase"`
	Args    map[string]string `json:"args,omitempty"`
	Applied map[string]string `json:"applied,omitempty"`
	Version string            `json:"version,omitempty"`
	// AppliedVersion is the version of the last ordered start, as Applied are its arguments.
	AppliedVersion string `json:"appliedVersion,omitempty"`
	Launch         Launch `json:"launch,omitzero"`
	LastOrder      string `json:"lastOrder,omitempty"`
}

// loopback is the address of all members: the agent is for one machine.
const loopback = "127.0.0.1"

func (r record) clientURL() string { return "http://" + loopback + ":" + strconv.Itoa(r.ClientPort) }

func (r record) peerURL() string {
	scheme := "http"
	if r.PeerTLS {
		scheme = "https"
	}
	return scheme + "://" + loopback + ":" + strconv.Itoa(r.PeerPort)
}

// identity is the state of the agent on disk.
type identity struct {
	Region string `json:"region"`
	// Tokens are the highest tokens by system.
	Tokens map[string]int64 `json:"tokens,omitempty"`
	// Token is the highest token of an agent of an earlier version, which did not distinguish systems.
	Token int64 `json:"token,omitempty"`
}

// folder is the folder of an agent.
type folder string

func (f folder) member(id string) string { return filepath.Join(string(f), membersFolder, id) }

func (f folder) saveIdentity(id identity) error {
	return write(filepath.Join(string(f), agentFile), id)
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

// load reads all records. A folder without a record belongs to a member that was not completely prepared.
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
			err = fmt.Errorf("the record in the folder of member %s is of member %s", entry.Name(), r.ID)
		case err == nil:
			records = append(records, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return records, nil
}

// removeData removes everything of a member except its record.
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

// write replaces a file atomically, also in case of a power failure.
func write(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
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
