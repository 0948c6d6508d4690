package rig

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Binary describes how to build a program.
type Binary struct {
	pkg    string
	race   bool
	commit string
}

// BuildOption is an option of Build.
type BuildOption func(*Binary)

// Race builds with the race detector: a race ends the process with exit code 66.
func Race(binary *Binary) { binary.race = true }

// At builds from the sources of an earlier commit in the history of the clone. A package that the commit
// does not have is copied from the working tree, with the imports of the commit. Other options have no
// effect.
func At(commit string) BuildOption { return func(binary *Binary) { binary.commit = commit } }

// ProgramsVariable is the environment variable with a folder of programs that were built before the tests:
// race/<name> with the race detector, plain/<name> without. Otherwise, each package's tests link them again.
const ProgramsVariable = "RINGMASTER_TEST_PROGRAMS"

type buildResult struct {
	once sync.Once
	path string
	err  error
}

// Build builds a package of the repository, relative to its root (./cmd/ringmaster), once in a test run,
// and returns the path of the executable.
func Build(t testing.TB, pkg string, options ...BuildOption) string {
	t.Helper()
	result := thisRun.build(newBinary(pkg, options))
	if result.err != nil {
		t.Fatal(result.err)
	}
	return result.path
}

func newBinary(pkg string, options []BuildOption) Binary {
	binary := Binary{pkg: pkg}
	for _, option := range options {
		option(&binary)
	}
	return binary
}

// Programs builds programs, and returns a folder with links to them that is removed after the test.
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
		if binary.commit == "" {
			result.path, result.err = s.provide(binary)
		} else if result.path, result.err = s.compileAt(binary); result.err == nil {
			result.err = statSources(binary.pkg)
		}
	})
	return result
}

// provide returns the path of the program in a folder of its own, because some programs look for others beside them.
func (s *testRun) provide(binary Binary) (string, error) {
	folder, err := s.tempDir("build")
	if err != nil {
		return "", err
	}
	target := filepath.Join(folder, filepath.Base(binary.pkg))
	// `go test` records that the prebuilt program was opened, so a result is not cached for another program.
	if prebuilt := binary.prebuilt(os.Getenv(ProgramsVariable)); prebuilt != "" {
		return target, linkOrCopy(prebuilt, target)
	}
	if err := binary.compile(target); err != nil {
		return "", err
	}
	return target, statSources(binary.pkg)
}

func (b Binary) compile(target string) error {
	args := []string{"build", "-ldflags=-s -w", "-o", target} // without debug information, which takes long to link
	if b.race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = filepath.Join(repository(), b.pkg) // which may be in a module of its own
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", b.pkg, err, out)
	}
	return nil
}

// prebuilt returns the path of the program in a folder of programs, or "" if it does not have the program.
func (b Binary) prebuilt(folder string) string {
	if folder == "" {
		return ""
	}
	variant := "plain"
	if b.race {
		variant = "race"
	}
	file := filepath.Join(folder, variant, filepath.Base(b.pkg))
	info, err := buildinfo.ReadFile(file)
	if err != nil || info.Path != path.Join(module, b.pkg) {
		return ""
	}
	return file
}

// linkOrCopy makes a program available under another path.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	const executable = 0o700
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, executable)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// statSources reads the metadata of all source files of a program. `go test` records which files a test reads,
// so a result is not cached for other sources.
func statSources(pkg string) error {
	const format = `{{if and (not .Standard) .Module}}{{if or .Module.Main .Module.Replace}}{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`
	cmd := exec.Command("go", "list", "-deps", "-f", format, ".")
	cmd.Dir = filepath.Join(repository(), pkg)
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
