package debian

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"path"
	"strings"
)

// With returns the files that a program needs, by their path without the leading slash: the program, its
// loader, and its libraries with their dependencies.
func (f Files) With(program string) (map[string][]byte, error) {
	return f.with(program, readELF)
}

// requirement has the dependencies in the ELF header of a program or a library.
type requirement struct {
	loader    string // of a program; a path
	libraries []string
}

func (f Files) with(program string, read func([]byte) (requirement, error)) (map[string][]byte, error) {
	taken := map[string][]byte{}
	for next := []string{clean(program)}; len(next) > 0; next = next[1:] {
		name := next[0]
		if _, done := taken[name]; done {
			continue
		}
		content, err := f.Content(name)
		if err != nil {
			return nil, err
		}
		taken[name] = content
		needs, err := read(content)
		if err != nil {
			return nil, fmt.Errorf("reading the dependencies of /%s: %w", name, err)
		}
		for _, library := range needs.libraries {
			where, err := f.find(library)
			if err != nil {
				return nil, fmt.Errorf("/%s needs a library: %w", name, err)
			}
			next = append(next, where)
		}
		if needs.loader == "" {
			continue
		}
		// The kernel opens the full path, which in some releases contains a link between folders that is in
		// another package.
		where, err := f.find(path.Base(needs.loader))
		if err != nil {
			return nil, fmt.Errorf("/%s needs a loader: %w", name, err)
		}
		if taken[clean(needs.loader)], err = f.Content(where); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// find returns the path of a library. Variants for special processors are in deeper folders.
func (f Files) find(library string) (string, error) {
	found := ""
	for name := range f {
		if path.Base(name) != library {
			continue
		}
		if depth := strings.Count(name, "/") - strings.Count(found, "/"); found == "" || depth < 0 || depth == 0 && name < found {
			found = name
		}
	}
	if found == "" {
		return "", fmt.Errorf("%s not found in the packages", library)
	}
	return found, nil
}

func readELF(content []byte) (requirement, error) {
	binary, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return requirement{}, err
	}
	libraries, err := binary.ImportedLibraries()
	if err != nil {
		return requirement{}, err
	}
	needs := requirement{libraries: libraries}
	for _, part := range binary.Progs {
		if part.Type != elf.PT_INTERP {
			continue
		}
		loader, err := io.ReadAll(part.Open())
		if err != nil {
			return requirement{}, err
		}
		needs.loader = string(bytes.TrimRight(loader, "\x00"))
	}
	return needs, nil
}
