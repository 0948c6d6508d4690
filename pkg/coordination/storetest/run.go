package storetest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// Process is the connection of one process to the backend of a store.
type Process struct {
	Store kv.Store
	// Kill ends the process abruptly, as SIGKILL would: it renews no session afterwards. It may be called twice.
	Kill func()
	// Interrupt breaks the connections of the process, which can reconnect at once. It may be nil.
	Interrupt func()
}

const (
	// sessionDuration is the duration of sessions that have to expire. A busy machine must not hang for a fifth of it.
	sessionDuration = 5 * time.Second
	// eventTimeout is the timeout for expected events.
	eventTimeout = 2 * time.Minute
)

// Run tests a store. Each call of start starts a process that shares only the backend with the others. The test may kill it.
func Run(t *testing.T, start func(t *testing.T) Process) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"EntriesAreReadAsWritten", (*suite).entriesAreReadAsWritten},
		{"ReadsReturnEntriesAtAndBelow", (*suite).readsReturnEntriesAtAndBelow},
		{"ReadsAreAtOneRevision", (*suite).readsAreAtOneRevision},
		{"VersionsAreRevisions", (*suite).versionsAreRevisions},
		{"Conditions", (*suite).conditions},
		{"AllOrNothing", (*suite).allOrNothing},
		{"Deletes", (*suite).deletes},
		{"InvalidTransactionsAreRefused", (*suite).invalidTransactionsAreRefused},
		{"TooLarge", (*suite).tooLarge},
		{"ManyWriters", (*suite).manyWriters},
		{"SessionsEndWithClose", (*suite).sessionsEndWithClose},
		{"EntriesChangeTheirSession", (*suite).entriesChangeTheirSession},
		{"EndedSessionsAreRefused", (*suite).endedSessionsAreRefused},
		{"SessionsLiveWithTheirProcess", (*suite).sessionsLiveWithTheirProcess},
		{"SessionsDieWithTheirProcess", (*suite).sessionsDieWithTheirProcess},
		{"WatchesSignalChanges", (*suite).watchesSignalChanges},
		{"WatchesSignalTheEndOfSessions", (*suite).watchesSignalTheEndOfSessions},
		{"WatchesEndWithTheirContext", (*suite).watchesEndWithTheirContext},
		{"WatchesOutliveConnections", (*suite).watchesOutliveConnections},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newSuite(t, start)) })
	}
	t.Run("Linearizable", func(t *testing.T) { Linearizable(t, start) })
}

// suite has two processes and a root for a test.
type suite struct {
	*testing.T
	*gomega.WithT
	start func(t *testing.T) Process
	// first and second are two processes.
	first, second Process
	// root is a unique path.
	root string
}

func newSuite(t *testing.T, start func(t *testing.T) Process) *suite {
	t.Helper()
	return &suite{
		T: t, WithT: gomega.NewWithT(t), start: start,
		first: startProcess(t, start), second: startProcess(t, start), root: newRoot(),
	}
}

func newRoot() string { return "/storetest/" + rand.Text()[:8] }

// startProcess starts a process and kills it at the end of the test.
func startProcess(t *testing.T, start func(t *testing.T) Process) Process {
	t.Helper()
	process := start(t)
	t.Cleanup(process.Kill)
	return process
}

// key returns a key below the root.
func (s *suite) key(path string) string { return s.root + "/" + path }

// commit applies operations, which must succeed.
func (s *suite) commit(process Process, operations ...kv.Operation) int64 {
	s.Helper()
	revision, err := process.Store.Commit(s.Context(), kv.Transaction{Then: operations})
	if err != nil {
		s.Fatalf("committing: %v", err)
	}
	return revision
}

// read reads paths below the root, or without paths everything below the root.
func (s *suite) read(process Process, paths ...string) *kv.Snapshot {
	s.Helper()
	snapshot, err := s.tryRead(process, paths...)
	if err != nil {
		s.Fatalf("reading: %v", err)
	}
	return snapshot
}

func (s *suite) tryRead(process Process, paths ...string) (*kv.Snapshot, error) {
	below := []string{s.root}
	if len(paths) > 0 {
		below = nil
		for _, path := range paths {
			below = append(below, s.key(path))
		}
	}
	return process.Store.Read(s.Context(), below...)
}

// values returns the values that a process reads, by key below the root.
func (s *suite) values(process Process, paths ...string) map[string]string {
	s.Helper()
	values, err := s.tryValues(process, paths...)
	if err != nil {
		s.Fatalf("reading: %v", err)
	}
	return values
}

func (s *suite) tryValues(process Process, paths ...string) (map[string]string, error) {
	snapshot, err := s.tryRead(process, paths...)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for key, entry := range snapshot.Entries {
		values[strings.TrimPrefix(key, s.root+"/")] = entry.Value
	}
	return values, nil
}

// open opens a session. The test need not close it.
func (s *suite) open(process Process) kv.Session {
	s.Helper()
	session, err := process.Store.Open(s.Context(), "storetest/"+s.Name(), sessionDuration)
	if err != nil {
		s.Fatalf("opening a session: %v", err)
	}
	return session
}

// close closes a session.
func (s *suite) close(session kv.Session) {
	s.Helper()
	if err := session.Close(s.Context()); err != nil {
		s.Fatalf("closing a session: %v", err)
	}
}

// watch watches the path a.
func (s *suite) watch(ctx context.Context, process Process) <-chan struct{} {
	s.Helper()
	signals := process.Store.Watch(ctx, s.key("a"))
	s.Eventually(signals, eventTimeout).Should(gomega.Receive(), "at the beginning")
	return signals
}
