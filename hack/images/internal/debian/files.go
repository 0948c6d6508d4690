package debian

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Files are the files of packages, by their path without the leading slash. A link has a target.
type Files map[string]file

type file struct {
	content []byte
	target  string
}

// Unpack reads the files of packages.
func Unpack(debs []string) (Files, error) {
	files := Files{}
	for _, deb := range debs {
		if err := files.unpack(deb); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", filepath.Base(deb), err)
		}
	}
	return files, nil
}

func (f Files) unpack(deb string) error {
	cmd := exec.Command("dpkg-deb", "--fsys-tarfile", deb)
	packed, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = f.read(packed)
	_, rest := io.Copy(io.Discard, packed) // otherwise the process waits for a reader
	return errors.Join(err, rest, cmd.Wait())
}

// read adds the files in a tar.
func (f Files) read(packed io.Reader) error {
	for reader := tar.NewReader(packed); ; {
		header, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		name := clean(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			content, err := io.ReadAll(reader)
			if err != nil {
				return err
			}
			f[name] = file{content: content}
		case tar.TypeSymlink:
			f[name] = file{target: clean(resolved(name, header.Linkname))}
		case tar.TypeLink:
			f[name] = file{target: clean(header.Linkname)}
		}
	}
}

// resolved returns the target of a symbolic link.
func resolved(name, target string) string {
	if path.IsAbs(target) {
		return target
	}
	return path.Join("/", path.Dir(name), target)
}

func clean(name string) string { return strings.TrimPrefix(path.Join("/", name), "/") }

// Content returns the content of a file. It follows links.
func (f Files) Content(name string) ([]byte, error) {
	const maxLinks = 8 // links in succession
	path := clean(name)
	for range maxLinks {
		found, ok := f[path]
		switch {
		case !ok:
			return nil, fmt.Errorf("file /%s not found in the packages", path)
		case found.target == "":
			return found.content, nil
		}
		path = found.target
	}
	return nil, fmt.Errorf("too many links from /%s", clean(name))
}
