package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// testTimeout bounds one run of a test. It is for mutants that make a test hang, which is a fault of the mutant or of the test.
const testTimeout = "10m"

// runner applies mutants to a module, one at a time.
type runner struct {
	root    string
	mutants []mutant
	out     io.Writer
	// broken has what tests report that fail without any mutant, by package and test.
	broken map[[2]string]string
}

// result is the result of a mutant.
type result struct {
	mutant
	verdict verdict
	detail  string
	took    time.Duration
}

func newRunner(root string, mutants []mutant, out io.Writer) *runner {
	return &runner{root: root, mutants: mutants, out: out, broken: map[[2]string]string{}}
}

func (r *runner) run(ctx context.Context) ([]result, error) {
	if err := r.checkTests(ctx); err != nil {
		return nil, err
	}
	width := 0
	for _, m := range r.mutants {
		width = max(width, len(m.Name))
	}
	results := make([]result, 0, len(r.mutants))
	fmt.Fprintf(r.out, "%7s  %-*s  %-16s  %6s  %s\n", "", width, "MUTANT", "RESULT", "TOOK", "TEST")
	for i, m := range r.mutants {
		began := time.Now()
		verdict, detail, err := r.try(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("mutant %q: %w", m.Name, err)
		}
		done := result{mutant: m, verdict: verdict, detail: detail, took: time.Since(began)}
		results = append(results, done)
		fmt.Fprintf(r.out, "%3d/%-3d  %-*s  %-16s  %5.1fs  %s %s\n", i+1, len(r.mutants), width, m.Name, verdict, done.took.Seconds(), m.Package, m.Test)
	}
	return results, nil
}

// checkTests runs the tests without any mutant, once for each package. A test that fails anyway proves nothing.
func (r *runner) checkTests(ctx context.Context) error {
	var packages []string
	tests := map[string][]string{}
	for _, m := range r.mutants {
		if !slices.Contains(packages, m.Package) {
			packages = append(packages, m.Package)
		}
		if !slices.Contains(tests[m.Package], m.topLevel()) {
			tests[m.Package] = append(tests[m.Package], m.topLevel())
		}
	}
	for i, pkg := range packages {
		fmt.Fprintf(r.out, "Without a mutant %d/%d: %s\n", i+1, len(packages), pkg)
		found, err := r.test(ctx, "", pkg, "^("+strings.Join(tests[pkg], "|")+")$")
		if err != nil {
			return err
		}
		for _, m := range r.mutants {
			if m.Package == pkg && !found.passed[m.Test] {
				r.broken[[2]string{pkg, m.Test}] = "the test fails or does not exist:\n" + found.outputOf(m.topLevel())
			}
		}
	}
	return nil
}

// try applies one mutant.
func (r *runner) try(ctx context.Context, m mutant) (verdict, string, error) {
	original := filepath.Join(r.root, m.File)
	content, err := os.ReadFile(original)
	if err != nil {
		return stale, err.Error(), nil
	}
	changed, err := m.apply(string(content))
	if err != nil {
		return stale, err.Error(), nil
	}
	if detail, broken := r.broken[[2]string{m.Package, m.Test}]; broken {
		return failsAlways, detail, nil
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := write(dir, original, changed)
	if err != nil {
		return "", "", err
	}
	found, err := r.test(ctx, overlay, m.Package, m.pattern())
	if err != nil {
		return "", "", err
	}
	return judge(found, m.Test, m.Message), found.all, nil
}

// write makes an overlay in which a file has another content.
func write(dir, original, changed string) (overlay string, err error) {
	replacement := filepath.Join(dir, filepath.Base(original))
	content, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, errors.Join(os.WriteFile(replacement, []byte(changed), 0o600), os.WriteFile(overlay, content, 0o600))
}

// test runs tests of a package with an overlay, or without one.
func (r *runner) test(ctx context.Context, overlay, pkg, pattern string) (outcome, error) {
	arguments := []string{"test", "-json", "-vet=off", "-timeout", testTimeout, "-run", pattern}
	env := append(slices.DeleteFunc(os.Environ(), func(set string) bool {
		// Programs that were built before have no mutants.
		return strings.HasPrefix(set, "RINGMASTER_TEST_PROGRAMS=")
	}), "PWD="+r.root)
	if overlay != "" {
		arguments = append(arguments, "-count=1")
		// In the environment it counts for the programs that tests build, too.
		env = append(env, strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	command := exec.CommandContext(ctx, "go", append(arguments, pkg)...)
	command.Dir, command.Env = r.root, env
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) } // so that tests stop what they have started
	command.WaitDelay = time.Minute
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return outcome{}, errors.Join(err, ctx.Err())
	}
	return parse(output.Bytes()), nil
}
