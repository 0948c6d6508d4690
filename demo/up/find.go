package up

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Found is an up that runs.
type Found struct {
	// Dir is its data folder, Socket where it takes commands.
	Dir, Socket string
}

// errNothingUp is what there is to do when nothing is up.
var errNothingUp = errors.New("nothing is up: start it with 'ringmaster up' (or 'make up') in another terminal, " +
	"and name its --data-dir if it has one")

// Find finds the up that runs on a folder, or without one the only one that runs on a folder of its own.
func Find(dir string) (Found, error) {
	if dir != "" {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return Found{}, err
		}
		if _, err := os.Stat(absolute); errors.Is(err, fs.ErrNotExist) {
			return Found{}, fmt.Errorf("the folder %s does not exist: name the --data-dir of the 'ringmaster up' that is meant", absolute)
		}
		return findIn(absolute)
	}
	folders, err := filepath.Glob(filepath.Join(os.TempDir(), "ringmaster-*"))
	if err != nil {
		return Found{}, err
	}
	return findAmong(folders)
}

// findAmong finds the only one that takes commands. If there is none, what it says is about the one that
// comes closest.
func findAmong(folders []string) (Found, error) {
	var all []Found
	nearest := errNothingUp
	for _, folder := range folders {
		found, err := findIn(folder)
		switch {
		case err == nil:
			all = append(all, found)
		case !errors.Is(err, errNothingUp):
			nearest = err
		}
	}
	switch len(all) {
	case 0:
		return Found{}, nearest
	case 1:
		return all[0], nil
	}
	var names []string
	for _, found := range all {
		names = append(names, "--data-dir "+quote(found.Dir))
	}
	return Found{}, fmt.Errorf("several are up: say which one you mean with\n  %s", strings.Join(names, "\n  "))
}

// findIn finds the up that runs on a folder.
func findIn(dir string) (Found, error) {
	info, err := os.Stat(filepath.Join(dir, stateFile))
	if err != nil {
		return Found{}, errNothingUp
	}
	// A socket that somebody else has put there must not be believed.
	if stat, is := info.Sys().(*syscall.Stat_t); is && int64(stat.Uid) != int64(os.Getuid()) {
		return Found{}, errNothingUp
	}
	content, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return Found{}, fmt.Errorf("reading what is up: %w", err)
	}
	s := state{}
	if len(content) > 0 {
		if err := json.Unmarshal(content, &s); err != nil {
			return Found{}, fmt.Errorf("reading what is up, %s: %w", filepath.Join(dir, stateFile), err)
		}
	}
	return s.found(dir)
}

// found tells whether somebody takes commands there.
func (s state) found(dir string) (Found, error) {
	switch {
	case !locked(dir):
		return Found{}, errNothingUp // it was killed, or has ended
	case s.PID == 0:
		return Found{}, fmt.Errorf("what is to be up on %s is still starting: try again when it says so", dir)
	case s.Socket == "":
		return Found{}, fmt.Errorf("what is up on %s is a control plane without an example: start it without '--example none'", dir)
	}
	conn, err := net.Dial("unix", s.Socket)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return Found{}, errNothingUp // it is just ending
	}
	if err != nil {
		return Found{}, fmt.Errorf("reaching what is up on %s: %w", dir, err)
	}
	conn.Close()
	return Found{Dir: dir, Socket: s.Socket}, nil
}

// locked tells whether an up runs on the folder.
func locked(dir string) bool {
	file, err := os.Open(filepath.Join(dir, stateFile))
	if err != nil {
		return false
	}
	defer file.Close() // and let go of the lock
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}
