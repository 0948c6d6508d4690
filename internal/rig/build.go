package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Binary says how to build a program.
type Binary struct {
	pkg    string
	race   bool
	commit string
}

// BuildOption changes how a program is built.
type BuildOption func(*Binary)

// Race builds with the race detector: a race ends the process with exit code 66.
func Race(binary *Binary) { binary.race = true }

// At builds from the sources of an earlier commit, which has to be in the history of the clone. A package
// that the commit does not have is taken from the working tree, and uses what it imports as it was then.
// Other options have no effect.
func At(commit string) BuildOption { return func(binary *Binary) { binary.commit = commit } }

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

// Programs builds programs, and returns a folder with links to them that goes away with the test.
func Programs(t testing.TB, pkgs ...string) string {
	t.Helper()
	folder := TempDir(t)
	for _, pkg := range pkgs {
		built := Build(t, pkg)
		if err := os.Symlink(built, filepath.Join(folder, filepath.Base(built))); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func (s *testRun) build(binary Binary) *buildResult {
	s.mu.Lock()
	result, known := s.built[binary]
	if !known {
		result = &buildResult{}
		s.built[binary] = result
	}
	s.mu.Unlock()
	result.once.Do(func() {
		if binary.commit != "" {
			result.path, result.err = s.compileAt(binary)
		} else {
			result.path, result.err = s.compile(binary)
		}
		if result.err == nil {
			result.err = lookAtSources(binary.pkg)
		}
	})
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

// lookAtSources looks at all files that a program of the repository is built from. `go test` notes what
// a test looks at, and so does not take the result of a run for this one that had another program.
func lookAtSources(pkg string) error {
	const format = `{{if and (not .Standard) .Module}}{{if .Module.Main}}{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`
	cmd := exec.Command("go", "list", "-deps", "-f", format, pkg)
	cmd.Dir = repository()
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("listing the sources of %s: %w", pkg, err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if _, err := os.Stat(name); err != nil {
			return err
		}
	}
	return nil
}
