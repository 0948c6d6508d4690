package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Program is a part of the test binary that can run as a process of its own. It ends when ctx
// does, which is on SIGTERM.
type Program func(ctx context.Context) error

// programVariable makes the test binary run a Program instead of the tests.
const programVariable = "RINGMASTER_RIG_PROGRAM"

// Main is what a package's TestMain calls. It runs the tests and ends the process.
func Main(m *testing.M, options Options) {
	if name := os.Getenv(programVariable); name != "" {
		os.Exit(runProgram(name, options.Programs[name]))
	}
	flag.Parse()
	endWithParents()
	// controller-runtime's client would complain in every test's output that it has nobody to tell.
	log.SetLogger(logr.Discard())
	session.configure(options)
	code := m.Run()
	session.close()
	os.Exit(code)
}

func runProgram(name string, program Program) int {
	if program == nil {
		fmt.Fprintf(os.Stderr, "this test binary has no program %q\n", name)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := program(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// testRun is what the tests of one process share.
type testRun struct {
	mu         sync.Mutex
	configured bool
	options    Options
	folder     string
	shared     *plane
	sharedErr  error
	built      map[Binary]*buildResult
	checkedOut map[string]*buildResult // by commit
}

// session is the only one: a test binary runs its tests once.
var session = &testRun{built: map[Binary]*buildResult{}, checkedOut: map[string]*buildResult{}}

func (s *testRun) configure(options Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options, s.configured = options, true
}

// tempDir makes a folder that goes when the test run ends.
func (s *testRun) tempDir(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tempDirLocked(name)
}

func (s *testRun) tempDirLocked(name string) (string, error) {
	if s.folder == "" {
		folder, err := os.MkdirTemp("", "ringmaster-rig-")
		if err != nil {
			return "", err
		}
		if err := process.RemoveOnExit(folder); err != nil {
			return "", errors.Join(err, os.RemoveAll(folder))
		}
		s.folder = folder
	}
	return os.MkdirTemp(s.folder, name+"-")
}

// TempDir is a folder for the test that goes with the test run, however that ends. One of t.TempDir
// stays when the run is killed.
func TempDir(t testing.TB) string {
	t.Helper()
	folder, err := session.tempDir("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// sharedPlane starts the shared control plane with the first call.
func (s *testRun) sharedPlane() (*plane, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.configured {
		return nil, errors.New("this package has no shared control plane: " +
			"add func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }")
	}
	if s.shared == nil && s.sharedErr == nil {
		folder, err := s.tempDirLocked("shared")
		if err != nil {
			return nil, err
		}
		s.shared, s.sharedErr = startPlane(folder, s.options)
	}
	return s.shared, s.sharedErr
}

func (s *testRun) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		s.shared.Kill()
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}
