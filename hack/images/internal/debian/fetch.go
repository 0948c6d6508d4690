package debian

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ErrUnavailable is when a package cannot be had on this machine.
var ErrUnavailable = errors.New("the packages cannot be had")

// Fetch returns the files of a package and of those that may have libraries for it. They are kept in
// folder; if they are there already, the distribution is not asked.
func Fetch(name, arch, folder string) ([]string, error) {
	kept := filepath.Join(folder, name+"-"+arch)
	if found, err := filepath.Glob(filepath.Join(kept, "*.deb")); err != nil || len(found) > 0 {
		return found, err
	}
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: they are Debian's, and this machine has no %s", ErrUnavailable, program)
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	partial, err := os.MkdirTemp(folder, "partial-") // all of them are there, or none
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(partial)
	if err := downloadAll(name, arch, partial); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	// Whoever builds next may be somebody else.
	if err := errors.Join(os.Chmod(partial, 0o755), os.Rename(partial, kept)); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(kept, "*.deb"))
}

// downloadAll downloads a package, and then what the last ones depend on, until nothing is new.
func downloadAll(name, arch, folder string) error {
	known := map[string]bool{name: true}
	for wanted := []string{name}; len(wanted) > 0; {
		if err := download(wanted, arch, folder); err != nil {
			return err
		}
		debs, err := filepath.Glob(filepath.Join(folder, "*.deb"))
		if err != nil {
			return err
		}
		wanted = nil
		for _, deb := range debs {
			depends, err := field(deb, "Depends")
			if err != nil {
				return err
			}
			for _, next := range relevant(depends) {
				if !known[next] {
					known[next], wanted = true, append(wanted, next)
				}
			}
		}
	}
	return nil
}

// relevant returns those of the packages in a field Depends that may have libraries or parts of nginx,
// which some releases spread over several. The first of several alternatives is as good as any.
func relevant(depends string) []string {
	var names []string
	for dependency := range strings.SplitSeq(depends, ",") {
		first, _, _ := strings.Cut(dependency, "|")
		name, _, _ := strings.Cut(strings.TrimSpace(first), " ")
		name, _, _ = strings.Cut(name, ":")
		if slices.ContainsFunc([]string{"lib", "zlib", "nginx"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			names = append(names, name)
		}
	}
	return names
}

// download gets packages without installing them.
func download(names []string, arch, folder string) error {
	args := []string{"download"}
	for _, name := range names {
		args = append(args, name+":"+arch)
	}
	if aptGet(folder, args...) == nil {
		return nil
	}
	// The lists of packages may be missing or old, as in most images. That a list of somebody else's
	// cannot be had is no reason to fail.
	var listed error
	if os.Geteuid() == 0 {
		listed = aptGet(folder, "update")
	}
	if err := aptGet(folder, args...); err != nil {
		return fmt.Errorf("downloading %s: %w; try 'apt-get update' as root first", strings.Join(names, ", "), errors.Join(listed, err))
	}
	return nil
}

func aptGet(folder string, args ...string) error {
	// Root may download into a folder that apt's own user may not.
	cmd := exec.Command("apt-get", append([]string{"-o", "DPkg::Lock::Timeout=60", "-o", "APT::Sandbox::User=root"}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, strings.TrimSpace(string(said)))
	}
	return nil
}

// Version is a package's name and version.
func Version(deb string) (string, error) {
	name, err := field(deb, "Package")
	if err != nil {
		return "", err
	}
	version, err := field(deb, "Version")
	return name + "=" + version, err
}

func field(deb, name string) (string, error) {
	said, err := exec.Command("dpkg-deb", "--field", deb, name).Output()
	if err != nil {
		return "", fmt.Errorf("reading %s of %s: %w", name, filepath.Base(deb), err)
	}
	return strings.TrimSpace(string(said)), nil
}
