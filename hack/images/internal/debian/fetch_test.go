package debian

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseDepends(t *testing.T) {
	for name, test := range map[string]struct {
		depends string
		want    []string
	}{
		"none":              {},
		"libraries":         {"libc6 (>= 2.34), iproute2, zlib1g (>= 1:1.1.4)", []string{"libc6", "zlib1g"}},
		"parts of nginx":    {"nginx-common (= 1), debconf", []string{"nginx-common"}},
		"the first of many": {"nginx-core (<< 2) | nginx-full (<< 2), lsb-base", []string{"nginx-core"}},
		"of any processor":  {"libssl3:any", []string{"libssl3"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, parseDepends(test.depends)); diff != "" {
				t.Errorf("relevant(%q) (-want +got):\n%s", test.depends, diff)
			}
		})
	}
}

func TestPackagesAreDownloadedOnce(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // without apt-get
	folder := t.TempDir()
	if _, err := Fetch("nginx", "amd64", folder); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("without apt-get: %v, want ErrUnavailable", err)
	}
	deb := filepath.Join(folder, "nginx-amd64", "nginx_1_amd64.deb")
	if err := os.MkdirAll(filepath.Dir(deb), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(deb, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	debs, err := Fetch("nginx", "amd64", folder)
	if diff := cmp.Diff([]string{deb}, debs); err != nil || diff != "" {
		t.Errorf("%v, packages (-want +got):\n%s", err, diff)
	}
}
