package rig

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Binary says how to build a program.
type Binary struct {
	pkg  string
	race bool
}

// BuildOption changes how a program is built.
type BuildOption func(*Binary)

// Race builds with the race detector: a race ends the process with exit code 66.
func Race(binary *Binary) { binary.race = true }

type buildResult struct {
	once sync.Once
	path string
	err  error
}

// Build builds a package of the repository, named as from its root (./cmd/ringmaster), once for
// the whole test run, and returns the path of the executable.
func Build(t testing.TB, pkg string, options ...BuildOption) string {
	t.Helper()
	binary := Binary{pkg: pkg}
	for _, option := range options {
		option(&binary)
	}
	result := session.build(binary)
	if result.err != nil {
		t.Fatal(result.err)
	}
	return result.path
}

func (s *testRun) build(binary Binary) *buildResult {
	s.mu.Lock()
	result, known := s.built[binary]
	if !known {
		result = &buildResult{}
		s.built[binary] = result
	}
	s.mu.Unlock()
	result.once.Do(func() { result.path, result.err = s.compile(binary) })
	return result
}

func (s *testRun) compile(binary Binary) (string, error) {
	folder, err := s.tempDir("build")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, filepath.Base(binary.pkg))
	args := []string{"build", "-o", path}
	if binary.race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, binary.pkg)...)
	cmd.Dir = repository()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", binary.pkg, err, out)
	}
	return path, nil
}
