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

// ErrUnavailable is returned if packages cannot be downloaded on this machine.
var ErrUnavailable = errors.New("packages unavailable")

// Fetch returns the files of a package and of packages with libraries for it. It downloads them into folder,
// unless they are there.
func Fetch(name, arch, folder string) ([]string, error) {
	kept := filepath.Join(folder, name+"-"+arch)
	if found, err := filepath.Glob(filepath.Join(kept, "*.deb")); err != nil || len(found) > 0 {
		return found, err
	}
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: program %s not found, which Debian has", ErrUnavailable, program)
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	partial, err := os.MkdirTemp(folder, "partial-") // so that folder has all of them or none
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(partial)
	if err := downloadAll(name, arch, partial); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	// Another user may run the next build.
	if err := errors.Join(os.Chmod(partial, 0o755), os.Rename(partial, kept)); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(kept, "*.deb"))
}

// downloadAll downloads a package, and repeatedly the dependencies of downloaded packages.
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
			for _, next := range parseDepends(depends) {
				if !known[next] {
					known[next], wanted = true, append(wanted, next)
				}
			}
		}
	}
	return nil
}

// parseDepends returns those packages in a field Depends that may have libraries or parts of nginx, which some
// releases split into several packages. Of alternatives it takes the first.
func parseDepends(depends string) []string {
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

// download downloads packages without installing them.
func download(names []string, arch, folder string) error {
	args := []string{"download"}
	for _, name := range names {
		args = append(args, name+":"+arch)
	}
	if aptGet(folder, args...) == nil {
		return nil
	}
	// The lists of packages may be missing or old, as in most images. An unreachable list of a third
	// party is not an error.
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
	// The user that apt switches to may lack access to the folder.
	cmd := exec.Command("apt-get", append([]string{"-o", "DPkg::Lock::Timeout=60", "-o", "APT::Sandbox::User=root"}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Version returns a package's name and version.
func Version(deb string) (string, error) {
	name, err := field(deb, "Package")
	if err != nil {
		return "", err
	}
	version, err := field(deb, "Version")
	return name + "=" + version, err
}

func field(deb, name string) (string, error) {
	output, err := exec.Command("dpkg-deb", "--field", deb, name).Output()
	if err != nil {
		return "", fmt.Errorf("reading %s of %s: %w", name, filepath.Base(deb), err)
	}
	return strings.TrimSpace(string(output)), nil
}
