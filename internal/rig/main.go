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

// Program is a function of the test binary that runs as a process of its own. It returns when ctx
// ends, on SIGTERM.
type Program func(ctx context.Context) error

// programVariable makes the test binary run a Program instead of the tests.
const programVariable = "RINGMASTER_RIG_PROGRAM"

// Main runs the tests of a package and ends the process. It is called by TestMain.
func Main(m *testing.M, options Options) {
	if name := os.Getenv(programVariable); name != "" {
		os.Exit(runProgram(name, options.Programs[name]))
	}
	flag.Parse()
	exitWithParents()
	// Without a logger, controller-runtime would print a warning in the output of every test.
	log.SetLogger(logr.Discard())
	thisRun.configure(options)
	code := m.Run()
	thisRun.close()
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

// testRun is the state that the tests of one process share.
type testRun struct {
	mu         sync.Mutex
	configured bool
	options    Options
	folder     string
	shared     *cluster
	sharedErr  error
	built      map[Binary]*buildResult
	checkedOut map[string]*buildResult // by commit
}

// thisRun is the only testRun, because a test binary runs its tests once.
var thisRun = &testRun{built: map[Binary]*buildResult{}, checkedOut: map[string]*buildResult{}}

func (s *testRun) configure(options Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options, s.configured = options, true
}

// tempDir creates a folder that is removed when the test run ends.
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

// TempDir returns a folder for the test that is removed after the test run, however that ends. A folder of
// t.TempDir stays if the run is killed.
func TempDir(t testing.TB) string {
	t.Helper()
	folder, err := thisRun.tempDir("test")
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

// sharedCluster returns the shared control plane, which the first call starts.
func (s *testRun) sharedCluster() (*cluster, error) {
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
		s.shared, s.sharedErr = startCluster(folder, s.options)
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
