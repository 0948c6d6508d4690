// Package kv is the contract between a coordination and the store that its participants share: a key-value store with
// transactions, watches and sessions. Package etcdstore keeps it in etcd, package kubestore in the API of Kubernetes, and package
// storetest checks a store of your own.
package kv

import (
	"context"
	"errors"
	"time"
)

// Store keeps the entries of a coordination. Keys are paths without a slash at their end. A key is "below" a path if it begins with
// the path and a slash. All reads are linearizable.
type Store interface {
	// Read returns all entries at or below the paths, at one revision.
	Read(ctx context.Context, paths ...string) (*Snapshot, error)
	// Commit applies a transaction atomically. It returns the revision of the transaction, or ErrConflict if a condition was not met.
	// After any other error the transaction may have been applied or not.
	Commit(ctx context.Context, transaction Transaction) (int64, error)
	// Watch sends a signal at the beginning, after every change at or below the path, and whenever it may have missed a change.
	// Signals are merged: read the entries after each. When the context ends, Watch ends and closes the channel.
	Watch(ctx context.Context, path string) <-chan struct{}
	// Open begins a session, which ends when this process does not renew it for the duration. The name is informational: each call
	// opens a different session.
	Open(ctx context.Context, name string, duration time.Duration) (Session, error)
}

// Session ends by itself when its process dies. Its entries are removed when it ends.
type Session interface {
	// ID returns the ID of the session. No other session ever has the same ID.
	ID() string
	// Lost is closed when the entries of the session may be gone. Unless the process hangs, it is closed before others can see that
	// they are gone.
	Lost() <-chan struct{}
	// Close ends the session and removes its entries at once.
	Close(ctx context.Context) error
}

// Snapshot is a part of the store at one revision.
type Snapshot struct {
	Revision int64
	Entries  map[string]Entry
}

// Entry is the value of a key, with its metadata.
type Entry struct {
	Value string
	// Version is the revision of the last write to the key.
	Version int64
	// Session is the ID of the session that the entry ends with, if any.
	Session string
}

// Transaction is a list of operations on different keys, done only if all conditions are met.
type Transaction struct {
	If   []Condition
	Then []Operation
	// Reserve is the percentage of the store's capacity that has to stay free. A transaction that adds entries to a store with less
	// room is refused with ErrTooLarge; one that only removes entries is not. A store without such a limit may ignore it.
	Reserve int
}

// Condition is a condition on a key or on a path.
type Condition struct {
	// Key has this version; 0 means that the entry does not exist.
	Key     string
	Version int64
	// Path, which is set instead of Key, has had no entry written at or below it since this revision. Deletions do not count.
	Path  string
	Since int64
}

// Operation writes or deletes.
type Operation struct {
	Key string
	// Delete removes the entry, and with Below also all entries below the key.
	Delete, Below bool
	Value         string
	// Session is the ID of the session of this store that the entry ends with, if any.
	Session string
}

// IsAt is met while an entry has not been written since it was read.
func IsAt(key string, version int64) Condition { return Condition{Key: key, Version: version} }

// IsAbsent is met while the entry does not exist.
func IsAbsent(key string) Condition { return Condition{Key: key} }

// NotWritten is met while no entry at or below a path has been written after a revision.
func NotWritten(path string, since int64) Condition { return Condition{Path: path, Since: since} }

// Put writes an entry.
func Put(key, value string) Operation { return Operation{Key: key, Value: value} }

// PutFor writes an entry that ends with a session.
func PutFor(session Session, key, value string) Operation {
	return Operation{Key: key, Value: value, Session: session.ID()}
}

// Delete removes an entry, if it exists.
func Delete(key string) Operation { return Operation{Key: key, Delete: true} }

// DeleteBelow removes all entries at or below a path.
func DeleteBelow(path string) Operation { return Operation{Key: path, Delete: true, Below: true} }

var (
	// ErrConflict is returned for a transaction whose conditions were not met.
	ErrConflict = errors.New("conflict with another write")
	// ErrSessionLost is returned for a write that belongs to a session which has ended.
	ErrSessionLost = errors.New("the session has ended")
	// ErrTooLarge is returned for a transaction that exceeds a limit of the store.
	ErrTooLarge = errors.New("too large for the store")
)
