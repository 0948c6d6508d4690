package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringmaster-project/ringmaster/internal/kubeversion"
)

// writePrograms writes programs that print texts, as a user may have them.
func writePrograms(t *testing.T, texts map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for program, text := range texts {
		script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", text)
		if err := os.WriteFile(filepath.Join(folder, program), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// envtest has the programs that setup-envtest installs.
var envtest = map[string]string{
	"etcd":           "etcd Version: 3.6.4\nGit SHA: 5400cdc",
	"kube-apiserver": "Kubernetes v1.36.0",
	"kubectl":        "Client Version: v1.36.2\nKustomize Version: v5.7.1",
}

func TestExistingProgramsAreNotBuilt(t *testing.T) {
	from, to, existing := t.TempDir(), filepath.Join(t.TempDir(), "bin"), writePrograms(t, envtest)
	source(t, from, "built v1.2.3")
	printed, err := runBuild(t.Context(), from, to, existing)
	if err != nil {
		t.Fatal(err)
	}
	want := "Using etcd 3.6.4, kube-apiserver 1.36.0 and kubectl 1.36.2 from " + existing + " (KUBEBUILDER_ASSETS); " +
		"building kube-controller-manager, kube-proxy, kube-scheduler and kubelet\n"
	if !strings.HasPrefix(printed, want) {
		t.Errorf("it printed %q, want %q first", printed, want)
	}
	for _, program := range programs {
		want := "built v1.2.3"
		if text, ok := envtest[program]; ok {
			want = text
		}
		if got := output(t, to, program); got != want {
			t.Errorf("%s prints %q, want %q", program, got, want)
		}
	}
	if left, err := os.ReadDir(existing); err != nil || len(left) != len(envtest) {
		t.Errorf("the existing folder has %v (%v), want it unchanged", left, err)
	}
	printed, err = runBuild(t.Context(), from, to, existing)
	if want := "up to date in " + to + ": etcd, kube-apiserver and kubectl from " + existing + "; "; err != nil || !strings.Contains(printed, want) {
		t.Errorf("nothing changed, but it printed %q (%v), want %q", printed, err, want)
	}

	newer := "Kubernetes v1.36.10"
	if err := os.WriteFile(filepath.Join(existing, "kube-scheduler"), []byte("#!/bin/sh\necho "+newer+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := runBuild(t.Context(), from, to, existing); err != nil {
		t.Fatal(err)
	}
	if got := output(t, to, "kube-scheduler"); got != newer {
		t.Errorf("a program was added to the existing folder, but kube-scheduler prints %q", got)
	}
	if _, err := runBuild(t.Context(), from, to, ""); err != nil {
		t.Fatal(err)
	}
	if got := output(t, to, "etcd"); got != "built v1.2.3" {
		t.Errorf("no program exists any more, but etcd prints %q", got)
	}
}

func TestNothingIsBuiltIfAllProgramsExist(t *testing.T) {
	all := map[string]string{}
	for _, program := range programs {
		all[program] = "Kubernetes v1.35.0"
	}
	all["etcd"] = envtest["etcd"]
	from, to, existing := t.TempDir(), filepath.Join(t.TempDir(), "bin"), writePrograms(t, all)
	source(t, from, "\" + undefined + \"") // does not compile
	printed, err := runBuild(t.Context(), from, to, existing)
	if err != nil || !strings.HasSuffix(printed, "building nothing\n") {
		t.Fatalf("it printed %q (%v)", printed, err)
	}
	for _, program := range programs {
		if got := output(t, to, program); got != all[program] {
			t.Errorf("%s prints %q, want %q", program, got, all[program])
		}
	}
}

func TestExistingProgramsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		texts map[string]string
		want  []string
	}{
		"too old": {
			map[string]string{"kube-apiserver": "Kubernetes v1.34.9", "kubectl": "Client Version: v1.33.0", "etcd": "etcd Version: 3.5.0"},
			[]string{"kube-apiserver in ", " is 1.34.9", "kubectl in ", "is 1.33.0", "needs Kubernetes 1.35 or newer", "unset KUBEBUILDER_ASSETS"},
		},
		"no version": {map[string]string{"kube-apiserver": "hello"}, []string{"kube-apiserver does not print a version", "hello"}},
		"not a program": {
			map[string]string{"kube-apiserver": "'; exit 1 #"},
			[]string{"reading the version of ", "kube-apiserver", "does it run on this machine?"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), filepath.Join(t.TempDir(), "bin")
			source(t, from, "built v1.2.3")
			_, err := runBuild(t.Context(), from, to, writePrograms(t, test.texts))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
			if _, err := os.Stat(filepath.Join(to, fingerprint)); err == nil {
				t.Error("the folder counts as built")
			}
		})
	}
	_, err := runBuild(t.Context(), "../../kubernetes", filepath.Join(t.TempDir(), "bin"), "/nonexistent")
	if err == nil || !strings.Contains(err.Error(), "KUBEBUILDER_ASSETS names /nonexistent, which is not a folder") {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

// TestProgramsNewerThanServer warns of programs that are newer than an existing kube-apiserver.
func TestProgramsNewerThanServer(t *testing.T) {
	for built, warns := range map[string]bool{"v1.36.9": false, "v1.35.1": false, "v1.37.0": true} {
		from, to, existing := t.TempDir(), filepath.Join(t.TempDir(), "bin"), writePrograms(t, envtest)
		source(t, from, "built "+built)
		manifest := filepath.Join(from, "go.mod")
		content, err := os.ReadFile(manifest)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(manifest, []byte(strings.ReplaceAll(string(content), "v1.2.3", built)), 0o600); err != nil {
			t.Fatal(err)
		}
		printed, err := runBuild(t.Context(), from, to, existing)
		if err != nil && !strings.Contains(err.Error(), "does not run") {
			t.Fatal(err)
		}
		want := "kube-controller-manager, kube-proxy, kube-scheduler and kubelet of version " + built + " will be newer than kube-apiserver"
		if strings.Contains(printed, want) != warns {
			t.Errorf("with %s it printed %q", built, printed)
		}
	}
}

func TestMinimumVersionEqualsProducts(t *testing.T) {
	if minimumVersion != kubeversion.Minimum {
		t.Errorf("existing programs must be of version %s, the product needs %s", minimumVersion, kubeversion.Minimum)
	}
}

func TestEveryProgramCanBeLeftOut(t *testing.T) {
	b := &build{reused: existingPrograms{paths: map[string]string{}}}
	for _, program := range programs {
		b.reused.paths[program] = "/" + program
	}
	files, err := filepath.Glob("../../kubernetes/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var constraints []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(content), "\n")
		if tag, ok := strings.CutPrefix(first, "//go:build !"); ok {
			constraints = append(constraints, tag)
		}
	}
	slices.Sort(constraints)
	tags := strings.Split(b.tags(), ",")
	slices.Sort(tags)
	if !slices.Equal(tags, constraints) {
		t.Errorf("the tags are %v, the files in kubernetes/ have the constraints %v", tags, constraints)
	}
}
