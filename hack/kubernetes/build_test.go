package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// source writes a module that compiles in a second instead of Kubernetes: its programs print a text,
// in which the builder expects the version v1.2.3.
func source(t *testing.T, folder, text string) {
	t.Helper()
	for name, content := range map[string]string{
		"go.mod":  "module example.com/small // k8s.io/kubernetes v1.2.3\n\ngo 1.26.0\n",
		"go.sum":  "",
		"main.go": "package main\n\nfunc main() { println(\"" + text + "\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// runBuild returns what a build prints.
func runBuild(ctx context.Context, source, output, existing string) (string, error) {
	var printed bytes.Buffer
	b := &build{source: source, output: output, existing: existing, progress: &progress{out: &printed}}
	if cancel, ok := ctx.Value(compiling{}).(context.CancelFunc); ok {
		b.progress.out = interrupter{&printed, cancel}
	}
	err := b.run(ctx)
	return printed.String(), err
}

// compiling is the key of a function that is called when the compilation begins.
type compiling struct{}

// interrupter calls that function.
type interrupter struct {
	*bytes.Buffer
	interrupt context.CancelFunc
}

func (i interrupter) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("2/2 compiling")) {
		i.interrupt()
	}
	return i.Buffer.Write(text)
}

// output runs a program of the folder.
func output(t *testing.T, folder, program string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(folder, program)).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestBuild(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "bin")
	source(t, from, "one v1.2.3")
	printed, err := runBuild(t.Context(), from, to, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		if got := output(t, to, program); got != "one v1.2.3" {
			t.Errorf("%s prints %q", program, got)
		}
	}
	if !strings.Contains(printed, "2/2 compiling") {
		t.Errorf("no progress was printed: %q", printed)
	}

	if printed, err := runBuild(t.Context(), from, to, ""); err != nil || strings.Contains(printed, "compiling") {
		t.Errorf("nothing changed, but it was built again (%v): %q", err, printed)
	}

	if err := os.Remove(filepath.Join(to, "etcd")); err != nil {
		t.Fatal(err)
	}
	if printed, err = runBuild(t.Context(), from, to, ""); err != nil || !strings.Contains(printed, "last time") {
		t.Errorf("a missing program was not built again, with the duration of the last build (%v): %q", err, printed)
	}

	source(t, from, "two v1.2.3")
	if _, err := runBuild(t.Context(), from, to, ""); err != nil {
		t.Fatal(err)
	}
	if got := output(t, to, "etcd"); got != "two v1.2.3" {
		t.Errorf("the source changed, but it prints %q", got)
	}
}

func TestFailuresChangeNothing(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(t *testing.T, from string) context.Context
		want  string
	}{
		"it does not compile": {func(t *testing.T, from string) context.Context {
			source(t, from, "\" + undefined + \"")
			return t.Context()
		}, "run 'make kubernetes' again"},
		"it is interrupted": {func(t *testing.T, from string) context.Context {
			source(t, from, "two v1.2.3")
			ctx, cancel := context.WithCancel(t.Context())
			return context.WithValue(ctx, compiling{}, cancel)
		}, "context canceled"},
		"a module is missing": {func(t *testing.T, from string) context.Context {
			source(t, from, "two v1.2.3")
			t.Setenv("GOPROXY", "off")
			t.Setenv("GOFLAGS", "-mod=mod")
			content := "package main\n\nimport _ \"example.com/missing\"\n\nfunc main() {}\n"
			if err := os.WriteFile(filepath.Join(from, "main.go"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			return t.Context()
		}, "example.com/missing"},
		"it prints another version": {func(t *testing.T, from string) context.Context {
			source(t, from, "two v0.0.0")
			return t.Context()
		}, "does not run as kubectl v1.2.3"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), filepath.Join(t.TempDir(), "bin")
			source(t, from, "one v1.2.3")
			if _, err := runBuild(t.Context(), from, to, ""); err != nil {
				t.Fatal(err)
			}
			_, err := runBuild(test.spoil(t, from), from, to, "")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
			if got := output(t, to, "etcd"); got != "one v1.2.3" {
				t.Errorf("the program of the first build now prints %q", got)
			}
			if left, _ := filepath.Glob(filepath.Join(to, ".new-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestHintForFailedBuild(t *testing.T) {
	for failure, want := range map[string]string{
		"write /cache: no space left on device":     "free some disk space",
		"dial tcp: lookup host: no such host":       "check the network",
		"compile: signal: killed":                   "because memory ran out",
		"requires go >= 1.99.0 (running go 1.26.0)": "newer Go",
		"main.go:1:1: something unexpected":         "run 'make kubernetes' again",
	} {
		if got := explain("building", errors.New(failure)).Error(); !strings.Contains(got, want) {
			t.Errorf("for %q the advice is %q", failure, got)
		}
	}
}
