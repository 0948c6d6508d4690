package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// minimumVersion is the oldest version of Kubernetes that Ringmaster supports, as in internal/kubeversion.
const minimumVersion = "1.35"

// variable names the folder with programs that the user has, as for envtest.
const variable = "KUBEBUILDER_ASSETS"

// existingPrograms are programs that the user has and that are not built.
type existingPrograms struct {
	folder   string
	paths    map[string]string           // by name, without symbolic links
	versions map[string]*version.Version // by name, after check
}

// findExisting returns the programs in a folder. Without a folder there are none.
func findExisting(folder string) (existingPrograms, error) {
	existing := existingPrograms{folder: folder, paths: map[string]string{}, versions: map[string]*version.Version{}}
	if folder == "" {
		return existing, nil
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return existing, fmt.Errorf("%s names %s, which is not a folder: unset it to build all programs, or set it to a folder that has some of them", variable, folder)
	}
	for _, program := range programs {
		path, err := filepath.EvalSymlinks(filepath.Join(folder, program))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return existing, fmt.Errorf("reading %s in %s: %w", program, folder, err)
		}
		existing.paths[program] = path
	}
	return existing, nil
}

// missing returns the programs that have to be built.
func (g existingPrograms) missing() []string {
	return slices.DeleteFunc(slices.Clone(programs), func(program string) bool { return g.paths[program] != "" })
}

// identity changes when an existing program does.
func (g existingPrograms) identity() (string, error) {
	var all strings.Builder
	for _, program := range programs {
		path, ok := g.paths[program]
		if !ok {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "%s %s %d %d\n", program, path, info.Size(), info.ModTime().UnixNano())
	}
	return all.String(), nil
}

// check runs the existing programs, and returns each with its version. It fails if one is too old.
func (g existingPrograms) check(ctx context.Context) (described []string, err error) {
	var errs []error
	for _, program := range programs {
		if g.paths[program] == "" {
			continue
		}
		found, err := g.version(ctx, program)
		switch {
		case err != nil:
			errs = append(errs, err)
		case program != "etcd" && found.LessThan(version.MustParseGeneric(minimumVersion)):
			errs = append(errs, fmt.Errorf("%s in %s is %s, and Ringmaster needs Kubernetes %s or newer: replace it, remove it to have it built, "+
				"or unset %s to build all programs", program, g.folder, found, minimumVersion, variable))
		default:
			described = append(described, program+" "+found.String())
			g.versions[program] = found
		}
	}
	return described, errors.Join(errs...)
}

// skewed returns which of the programs that are built, in a version, Kubernetes does not support with an older
// kube-apiserver.
func (g existingPrograms) skewed(built string) (programs []string) {
	server, other := g.versions["kube-apiserver"], version.MustParseGeneric(built)
	if server == nil || server.Major() == other.Major() && server.Minor() >= other.Minor() {
		return nil
	}
	return slices.DeleteFunc(g.missing(), func(program string) bool { return program == "etcd" || program == "kubectl" })
}

// version returns the version that a program prints, without its pre-release and build.
func (g existingPrograms) version(ctx context.Context, program string) (*version.Version, error) {
	const timeout = time.Minute // the first start of a large program on a slow disk
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	path := filepath.Join(g.folder, program) // a link, which may decide what is started
	out, err := exec.CommandContext(ctx, path, versionArguments(program)...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("reading the version of %s (does it run on this machine?): %w\n%s", path, err, out)
	}
	match := regexp.MustCompile(`(?i)(?:kubernetes|version:) +v?(\d+\.\d+\.\d+)`).FindSubmatch(out)
	if match == nil {
		return nil, fmt.Errorf("%s does not print a version:\n%s", path, out)
	}
	return version.ParseGeneric(string(match[1]))
}

func versionArguments(program string) []string {
	if program == "kubectl" {
		return []string{"version", "--client"}
	}
	return []string{"--version"}
}

// enumerate joins names for a sentence.
func enumerate(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
