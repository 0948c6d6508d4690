//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
)

// mountAll makes the node's file system: that of the host, except for the private folders. /sys stays
// that of the host, because another one would hide the cgroups.
func mountAll(folder config.Folder, assets string) error {
	// First private, so that no mount reaches the host; then shared in the node, because containers
	// with mount propagation need that.
	for _, propagation := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("separating the node's mounts from the host's: %w", err)
		}
	}
	// The host's processes must not be visible.
	if err := mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := coverPrivate(append(targets(assets), string(folder), assets)...); err != nil {
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
	return protectSettings()
}

// coverPrivate mounts empty folders over the private ones, and mounts those of kept that are in them
// at their former paths.
func coverPrivate(kept ...string) error {
	var open []*os.File // which reach them when they are covered
	for _, path := range kept {
		if !isPrivate(path) {
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		open = append(open, file)
	}
	for _, path := range config.Private {
		if err := mount("tmpfs", path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0755"); err != nil {
			return err
		}
	}
	for _, file := range open {
		if err := mountOpenFolder(file); err != nil {
			return err
		}
	}
	return nil
}

// targets returns the folders that the links in a folder lead to: its programs may be links to those
// that the user had before.
func targets(folder string) []string {
	var found []string
	links, _ := filepath.Glob(filepath.Join(folder, "*"))
	for _, link := range links {
		target, err := filepath.EvalSymlinks(link)
		if err != nil {
			continue // what needs the program says that it is missing
		}
		if parent := filepath.Dir(target); parent != folder && !slices.Contains(found, parent) {
			found = append(found, parent)
		}
	}
	return found
}

// uncover mounts an open folder at the path with which it was opened.
func mountOpenFolder(folder *os.File) error {
	defer folder.Close()
	if err := os.MkdirAll(folder.Name(), 0o750); err != nil {
		return err
	}
	return mount(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()), folder.Name(), "", syscall.MS_BIND, "")
}

// isPrivate reports whether a path is in a private folder.
func isPrivate(path string) bool {
	return slices.ContainsFunc(config.Private, func(private string) bool {
		return strings.HasPrefix(path, private+"/")
	})
}

// settings are settings of the whole host that a kubelet changes when it starts.
var settings = []string{
	"kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys",
	"kernel/panic", "kernel/panic_on_oops",
	"vm/overcommit_memory", "vm/panic_on_oom",
}

// shieldSettings mounts copies of these settings in the node, which have no effect.
func protectSettings() error {
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
