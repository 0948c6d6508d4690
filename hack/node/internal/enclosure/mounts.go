//go:build linux

package enclosure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/layout"
)

// mountAll makes the node's view of the file system: the machine's, but for the private folders.
//
// /sys stays the machine's: another one would hide the cgroups.
func mountAll(folder layout.Folder, assets string) error {
	// Private first, so that no mount of ours reaches the machine; then shared among what runs
	// inside, as containers that pass mounts on expect it.
	for _, propagation := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("separating the node's mounts from the machine's: %w", err)
		}
	}
	// The machine's processes are not to be seen.
	if err := mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := coverPrivate(string(folder), assets); err != nil {
		return err
	}
	for _, bind := range folder.Binds() {
		if err := errors.Join(os.MkdirAll(bind.Source, 0o750), os.MkdirAll(bind.Target, 0o750)); err != nil {
			return err
		}
		if err := mount(bind.Source, bind.Target, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	return shieldSettings()
}

// coverPrivate covers the private folders with empty ones, and shows those of kept that were in
// them at their old places.
func coverPrivate(kept ...string) error {
	var open []*os.File // how to reach them when they are covered
	for _, path := range kept {
		if !covered(path) {
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		open = append(open, file)
	}
	for _, path := range layout.Private {
		if err := mount("tmpfs", path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0755"); err != nil {
			return err
		}
	}
	for _, file := range open {
		if err := uncover(file); err != nil {
			return err
		}
	}
	return nil
}

// uncover shows an open folder at the path under which it was opened.
func uncover(folder *os.File) error {
	defer folder.Close()
	if err := os.MkdirAll(folder.Name(), 0o750); err != nil {
		return err
	}
	return mount(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()), folder.Name(), "", syscall.MS_BIND, "")
}

// covered tells whether a path is in a private folder.
func covered(path string) bool {
	return slices.ContainsFunc(layout.Private, func(private string) bool {
		return strings.HasPrefix(path, private+"/")
	})
}

// settings are those of the whole machine that a kubelet changes when it starts.
var settings = []string{
	"kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys",
	"kernel/panic", "kernel/panic_on_oops",
	"vm/overcommit_memory", "vm/panic_on_oom",
}

// shieldSettings gives the node copies of these settings, which do nothing.
func shieldSettings() error {
	for _, setting := range settings {
		path := "/proc/sys/" + setting
		value, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // this kernel does not have it
		}
		if err != nil {
			return err
		}
		shield := "/run/settings/" + setting
		if err := os.MkdirAll(filepath.Dir(shield), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(shield, value, 0o600); err != nil {
			return err
		}
		if err := mount(shield, path, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", source, target, err)
	}
	return nil
}
