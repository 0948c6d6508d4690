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

// Process is what one process has of a store's backend.
type Process struct {
	Store kv.Store
	// Kill ends all that the process does, at once and without a word to anybody, as SIGKILL would: above all it
	// keeps no session alive any more. It must be possible to call it twice.
	Kill func()
	// Interrupt, if there is one, breaks the connections of the process. It can connect again at once.
	Interrupt func()
}

const (
	// sessionDuration is that of sessions that have to be outlived. A machine that does much else at the same time must not
	// hang for a fifth of it.
	sessionDuration = 5 * time.Second
	// eventTimeout is for what has to happen at some time.
	eventTimeout = 2 * time.Minute
)

// Run tests a store. Every call of start begins a process that has nothing in common with the others but the
// backend, and that the test may kill.
func Run(t *testing.T, start func(t *testing.T) Process) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"EntriesAreReadAsWritten", (*suite).entriesAreReadAsWritten},
		{"ReadsSeeWhatIsAtOrBelow", (*suite).readsReturnEntriesAtAndBelow},
		{"ReadsAreAtOneRevision", (*suite).readsAreAtOneRevision},
		{"VersionsAreRevisions", (*suite).versionsAreRevisions},
		{"Conditions", (*suite).conditions},
		{"AllOrNothing", (*suite).allOrNothing},
		{"Deletes", (*suite).deletes},
		{"NonsenseIsRefused", (*suite).invalidTransactionsAreRefused},
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

// suite is what a test of a store needs.
type suite struct {
	*testing.T
	*gomega.WithT
	start func(t *testing.T) Process
	// first and second are two processes.
	first, second Process
	// root is a path that nobody else uses.
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

// startProcess starts a process that ends with the test.
func startProcess(t *testing.T, start func(t *testing.T) Process) Process {
	t.Helper()
	process := start(t)
	t.Cleanup(process.Kill)
	return process
}

// key is a key below the root.
func (s *suite) key(path string) string { return s.root + "/" + path }

// commit does what has to succeed.
func (s *suite) commit(process Process, operations ...kv.Operation) int64 {
	s.Helper()
	revision, err := process.Store.Commit(s.Context(), kv.Transaction{Then: operations})
	if err != nil {
		s.Fatalf("committing: %v", err)
	}
	return revision
}

// read reads what is at or below paths, which are seen from the root, and the whole root without any.
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

// values are what a process reads, seen from the root.
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

// open opens a session that the test may leave open.
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

// watch watches what is at or below a.
func (s *suite) watch(ctx context.Context, process Process) <-chan struct{} {
	s.Helper()
	signals := process.Store.Watch(ctx, s.key("a"))
	s.Eventually(signals, eventTimeout).Should(gomega.Receive(), "at the beginning")
	return signals
}
