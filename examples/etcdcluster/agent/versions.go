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
	versionLine  = regexp.MustCompile(`(?m)^etcd Version: (\S+)$`)
)

// versions are the etcd binaries of an agent: the bundled one, and those in a folder, as <version>/etcd.
type versions struct {
	etcd, folder string
	// bundledVersion returns the version of the bundled binary.
	bundledVersion func() string
}

func newVersions(etcd, folder string) versions {
	return versions{etcd: etcd, folder: folder, bundledVersion: sync.OnceValue(func() string {
		output, err := exec.Command(etcd, "--version").Output()
		found := versionLine.FindSubmatch(output)
		if err != nil || found == nil {
			return "" // no requested version matches then
		}
		return string(found[1])
	})}
}

// path returns the path of a version's binary, which may not exist.
func (v versions) path(version string) string {
	if version == "" || v.folder == "" || version == v.bundledVersion() {
		return v.etcd
	}
	return filepath.Join(v.folder, version, "etcd")
}

// check refuses a version that does not exist.
func (v versions) check(version string) error {
	if version == "" || version == v.bundledVersion() {
		return nil
	}
	if !validVersion.MatchString(version) {
		return refuse(ReasonInvalid, "invalid version %.80q: use a version of etcd such as 3.6.1", version)
	}
	if v.folder != "" {
		if _, err := os.Stat(v.path(version)); err == nil {
			return nil
		}
	}
	where := "give the agent a folder with other versions with --etcd-versions"
	if v.folder != "" {
		where = "put its binary at " + v.path(version)
	}
	return refuse(ReasonInvalid, "etcd %s not found (available: %s): choose one of them, or %s", version, strings.Join(v.all(), ", "), where)
}

func (v versions) all() []string {
	all := []string{v.bundledVersion()}
	found, _ := filepath.Glob(filepath.Join(v.folder, "*", "etcd")) // the pattern is valid
	for _, path := range found {
		if version := filepath.Base(filepath.Dir(path)); v.folder != "" && !slices.Contains(all, version) {
			all = append(all, version)
		}
	}
	return all
}
