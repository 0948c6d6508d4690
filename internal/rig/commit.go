package rig

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// compileAt builds a program from the sources of a commit.
func (s *testRun) compileAt(binary Binary) (string, error) {
	tree, err := s.tree(binary.commit)
	if err != nil {
		return "", err
	}
	if err := addPackage(tree, binary.pkg); err != nil {
		return "", err
	}
	folder, err := s.tempDir("build")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, filepath.Base(binary.pkg))
	// With -trimpath, the build cache does not depend on the folder. The other flags are those of images, so
	// that dependencies are compiled once for both.
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, binary.pkg)
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s of commit %s: %w\n%s", binary.pkg, binary.commit, err, out)
	}
	return path, nil
}

// tree returns a folder with the sources of a commit, which is removed when the test run ends.
func (s *testRun) tree(commit string) (string, error) {
	s.mu.Lock()
	result, known := s.checkedOut[commit]
	if !known {
		result = &buildResult{}
		s.checkedOut[commit] = result
	}
	s.mu.Unlock()
	result.once.Do(func() {
		if result.path, result.err = s.tempDir("tree"); result.err == nil {
			result.err = checkOut(repository(), commit, result.path)
		}
	})
	return result.path, result.err
}

// checkOut writes the files of a commit into a folder. Unlike a worktree, this does not change the clone.
func checkOut(clone, commit, folder string) error {
	git := func(args ...string) ([]byte, error) {
		cmd := exec.Command("git", append([]string{"-C", clone}, args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
		}
		return out, err
	}
	if _, err := git("rev-parse", "--quiet", "--verify", commit+"^{commit}"); err != nil {
		return fmt.Errorf("commit %s not found in this clone, from whose history an earlier version is built: "+
			"fetch it with 'git fetch --unshallow', or clone without --depth: %w", commit, err)
	}
	archive, err := git("archive", "--format=tar", commit)
	if err != nil {
		return err
	}
	return unpack(bytes.NewReader(archive), folder)
}

// unpack writes the files of a tar into a folder.
func unpack(archive io.Reader, folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading git's archive: %w", err)
		}
		name := filepath.FromSlash(header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeReg:
			var content []byte
			if content, err = io.ReadAll(reader); err == nil {
				err = root.WriteFile(name, content, 0o644)
			}
		}
		if err != nil {
			return err
		}
	}
}

// addPackage copies a package from the working tree into a tree that does not have it.
func addPackage(tree, pkg string) error {
	target := filepath.Join(tree, pkg)
	if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.CopyFS(target, os.DirFS(filepath.Join(repository(), pkg)))
}
