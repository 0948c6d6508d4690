//go:build unix

package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

var (
	validVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)
	saidVersion  = regexp.MustCompile(`(?m)^etcd Version: (\S+)$`)
)

// versions are the etcds that an agent can run: the one that it comes with, and those in a folder, as <version>/etcd.
type versions struct {
	etcd, folder string
	// own asks the one that the agent comes with which version it is.
	own func() string
}

func newVersions(etcd, folder string) versions {
	return versions{etcd: etcd, folder: folder, own: sync.OnceValue(func() string {
		said, err := exec.Command(etcd, "--version").Output()
		found := saidVersion.FindSubmatch(said)
		if err != nil || found == nil {
			return "" // it is asked for by no version then
		}
		return string(found[1])
	})}
}

// path is where the binary of a version is, if it is there.
func (v versions) path(version string) string {
	if version == "" || v.folder == "" || version == v.own() {
		return v.etcd
	}
	return filepath.Join(v.folder, version, "etcd")
}

// check refuses a version that is not there.
func (v versions) check(version string) error {
	if version == "" || version == v.own() {
		return nil
	}
	if !validVersion.MatchString(version) {
		return refuse(ReasonInvalid, "%.80q is no version of etcd, such as 3.6.1", version)
	}
	if v.folder != "" {
		if _, err := os.Stat(v.path(version)); err == nil {
			return nil
		}
	}
	where := "give the agent a folder for others with --etcd-versions"
	if v.folder != "" {
		where = "put its binary at " + v.path(version)
	}
	return refuse(ReasonInvalid, "there is no etcd %s, only %s: choose one of them, or %s", version, strings.Join(v.all(), ", "), where)
}

func (v versions) all() []string {
	all := []string{v.own()}
	found, _ := filepath.Glob(filepath.Join(v.folder, "*", "etcd")) // the pattern is none that fails
	for _, path := range found {
		if version := filepath.Base(filepath.Dir(path)); v.folder != "" && !slices.Contains(all, version) {
			all = append(all, version)
		}
	}
	return all
}
