//go:build linux

package host

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Hierarchy is a mounted tree of cgroups: version 1 has several, version 2 has one.
type Hierarchy struct {
	Path        string
	Unified     bool
	Controllers []string // of version 1; version 2 has a file with them
}

// Hierarchies returns the cgroup trees of this machine.
func Hierarchies() ([]Hierarchy, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return parseHierarchies(file)
}

// parseHierarchies reads lines such as
// "36 35 0:30 / /sys/fs/cgroup/memory rw,nosuid - cgroup none rw,memory".
func parseHierarchies(mountinfo io.Reader) ([]Hierarchy, error) {
	var found []Hierarchy
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		mount, system, _ := strings.Cut(lines.Text(), " - ")
		mountFields, fields := strings.Fields(mount), strings.Fields(system)
		if len(mountFields) < 5 || len(fields) < 3 {
			continue
		}
		switch path := mountFields[4]; fields[0] {
		case "cgroup":
			found = append(found, Hierarchy{Path: path, Controllers: strings.Split(fields[2], ",")})
		case "cgroup2":
			found = append(found, Hierarchy{Path: path, Unified: true})
		}
	}
	return found, lines.Err()
}

// has reports whether the hierarchy has a controller.
func (h Hierarchy) has(controller string) bool {
	if !h.Unified {
		return slices.Contains(h.Controllers, controller)
	}
	content, err := os.ReadFile(filepath.Join(h.Path, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(content)), controller)
}

// delegated are the controllers that a kubelet needs for its pods.
var delegated = []string{"cpu", "cpuset", "memory", "pids"}

// MakeCgroup makes the cgroup in all hierarchies. The kubelet does not make it.
func MakeCgroup(name string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		path := filepath.Join(h.Path, name)
		if err := os.MkdirAll(path, 0o750); err != nil {
			return err
		}
		if !h.Unified {
			continue
		}
		// In version 2 a cgroup has only the controllers that its parent enables.
		if err := errors.Join(enableControllers(h, h.Path), enableControllers(h, path)); err != nil {
			return err
		}
	}
	return nil
}

func enableControllers(h Hierarchy, path string) error {
	for _, controller := range delegated {
		if !h.has(controller) {
			continue
		}
		err := os.WriteFile(filepath.Join(path, "cgroup.subtree_control"), []byte("+"+controller), 0o600)
		if err != nil {
			return fmt.Errorf("enabling the controller %s for pods: %w", controller, err)
		}
	}
	return nil
}

// RemoveCgroup removes the cgroup and all below it, from all hierarchies.
func RemoveCgroup(name string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range hierarchies {
		errs = append(errs, removeTree(filepath.Join(h.Path, name)))
	}
	return errors.Join(errs...)
}

// cgroupPaths returns the paths of a cgroup that exists.
func cgroupPaths(hierarchies []Hierarchy, name string) []string {
	var paths []string
	for _, h := range hierarchies {
		path := filepath.Join(h.Path, name)
		if _, err := os.Stat(path); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// removeTree removes folders only, from the bottom up: the files of a cgroup cannot be removed, and
// disappear with their folder.
func removeTree(path string) error {
	folders, err := folders(path)
	if err != nil {
		return err
	}
	slices.Reverse(folders)
	for _, folder := range folders {
		if err := removeFolder(folder); err != nil {
			return err
		}
	}
	return nil
}

// folders returns path and all folders below it, each after its parent.
func folders(path string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // already removed
		case err != nil:
			return err
		case entry.IsDir():
			all = append(all, path)
		}
		return nil
	})
	return all, err
}

// removeFolder waits for processes that were just killed: a cgroup is busy until the kernel has
// ended them.
func removeFolder(path string) error {
	const pause, tries = 20 * time.Millisecond, 250
	for try := 0; ; try++ {
		err := syscall.Rmdir(path)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return nil
		case !errors.Is(err, syscall.EBUSY) || try == tries:
			return fmt.Errorf("removing %s: %w", path, err)
		}
		time.Sleep(pause)
	}
}
