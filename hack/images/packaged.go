package main

import (
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/ringmaster-project/ringmaster/hack/images/internal/debian"
)

// packagedProgram is a program of the distribution.
type packagedProgram struct {
	// pack is the package's name.
	pack string
	// program is the program's path, and args are its arguments unless others are given.
	program string
	args    []string
	// files are other files that it reads, folders those that it needs.
	files, folders []string
	// stop is the signal for a graceful stop.
	stop string
}

// nginx serves the pages of examples/webhosting.
var nginx = &packagedProgram{
	pack: "nginx", program: "/usr/sbin/nginx", args: []string{"-g", "daemon off;"},
	files:   []string{"etc/nginx/mime.types"},
	folders: []string{"usr/share/nginx/", "var/lib/nginx/", "var/log/nginx/"},
	stop:    "SIGQUIT",
}

// label has the packages of an image.
const label = "dev.timebertt.ringmaster.packages"

// assemblePackaged makes the image of a program of the distribution.
func (b builder) assemblePackaged(name string, p *packagedProgram) (v1.Image, error) {
	debs, err := debian.Fetch(p.pack, b.arch, b.packages)
	if err != nil {
		return nil, err
	}
	files, err := debian.Unpack(debs)
	if err != nil {
		return nil, err
	}
	entries, err := p.entries(files)
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, deb := range debs {
		version, err := debian.Version(deb)
		if err != nil {
			return nil, err
		}
		versions = append(versions, version)
	}
	return assemble(name, b.arch, entries, v1.Config{
		Entrypoint: []string{p.program},
		Cmd:        p.args,
		Env:        []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		StopSignal: p.stop,
		Labels:     map[string]string{label: strings.Join(versions, " ")},
	})
}

// entries returns the program with its libraries, its files and folders.
func (p *packagedProgram) entries(from debian.Files) ([]entry, error) {
	binaries, err := from.With(p.program)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, name := range slices.Sorted(maps.Keys(binaries)) {
		entries = append(entries, entry{path: name, mode: 0o755, content: binaries[name]})
	}
	for _, name := range p.files {
		content, err := from.Content(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{path: name, mode: 0o644, content: content})
	}
	for _, name := range p.folders {
		entries = append(entries, entry{path: name, mode: 0o755})
	}
	return withFolders(entries), nil
}

// withFolders inserts the parent folders before each entry.
func withFolders(entries []entry) []entry {
	var all []entry
	known := map[string]bool{}
	for _, e := range entries {
		var missing []entry
		for folder := path.Dir(strings.TrimSuffix(e.path, "/")); folder != "."; folder = path.Dir(folder) {
			if !known[folder+"/"] {
				known[folder+"/"] = true
				missing = append(missing, entry{path: folder + "/", mode: 0o755})
			}
		}
		slices.Reverse(missing)
		all = append(append(all, missing...), e)
		known[e.path] = true
	}
	return all
}
