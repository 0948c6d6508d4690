package up

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/process"
)

// stateFile marks a folder as ours. It is locked for as long as an up runs on the folder, and says
// where that one is to be found.
const stateFile = "ringmaster.json"

// state is what others may want to know of a running up.
type state struct {
	PID        int    `json:"pid"`
	Kubeconfig string `json:"kubeconfig"`
	// Socket is where it takes commands, if it does.
	Socket string `json:"socket,omitempty"`
}

// folder is the data folder of this process, and of no other.
type folder struct {
	path      string
	temporary bool
	lock      *os.File
}

// openFolder takes the folder for this process. An empty path is a new folder that is thrown away.
func openFolder(path string) (*folder, error) {
	f := &folder{path: path, temporary: path == ""}
	if err := f.make(); err != nil {
		return nil, err
	}
	if err := f.take(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *folder) make() (err error) {
	if f.temporary {
		if f.path, err = os.MkdirTemp("", "ringmaster-"); err != nil {
			return fmt.Errorf("making a folder for the data: %w", err)
		}
		return process.RemoveOnExit(f.path)
	}
	if f.path, err = filepath.Abs(f.path); err != nil {
		return err
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	return refuseForeign(f.path)
}

// refuseForeign protects the user's own files: a folder is ours, or empty.
func refuseForeign(path string) error {
	if _, err := os.Stat(filepath.Join(path, stateFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("looking into the data folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s holds something else (%s, …): name an empty folder, or one that does not exist yet",
			path, entries[0].Name())
	}
	return nil
}

// take locks the folder. The kernel lets go of the lock when this process ends, however it does.
func (f *folder) take() error {
	lock, err := os.OpenFile(filepath.Join(f.path, stateFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening the data folder: %w", err)
	}
	if err := exclusively(lock); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return f.runningError()
		}
		return fmt.Errorf("locking the data folder: %w", err)
	}
	f.lock = lock
	// What the last one wrote is not true any more, and this one has nothing to say yet.
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("opening the data folder: %w", err)
	}
	return nil
}

// exclusively locks a file. Who looks whether it is locked locks it for a moment.
func exclusively(file *os.File) (err error) {
	const tries, pause = 25, 20 * time.Millisecond
	for range tries {
		if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		time.Sleep(pause)
	}
	return err
}

func (f *folder) runningError() error {
	var other state
	content, err := os.ReadFile(filepath.Join(f.path, stateFile))
	if err != nil || json.Unmarshal(content, &other) != nil {
		return fmt.Errorf("another 'ringmaster up' is just starting on %s", f.path)
	}
	return fmt.Errorf("'ringmaster up' is running already on %s, as process %d: its kubeconfig is %s. "+
		"Use that one, stop it with Ctrl-C or 'kill %[2]d', or name another --data-dir", f.path, other.PID, other.Kubeconfig)
}

// announce tells others where to find this one.
func (f *folder) announce(s state) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	// In place: another file would not be the one that is locked.
	if err := f.lock.Truncate(0); err != nil {
		return fmt.Errorf("writing %s: %w", stateFile, err)
	}
	if _, err := f.lock.WriteAt(content, 0); err != nil {
		return fmt.Errorf("writing %s: %w", stateFile, err)
	}
	return nil
}

// close lets go of the folder, and removes one that is not to be kept.
func (f *folder) close() error {
	defer f.lock.Close()
	if !f.temporary {
		return nil
	}
	if err := os.RemoveAll(f.path); err != nil {
		return fmt.Errorf("removing the data: %w", err)
	}
	return nil
}

// keep makes a temporary folder stay, so that its logs can be read.
func (f *folder) keep() error {
	if !f.temporary {
		return nil
	}
	f.temporary = false
	return process.KeepOnExit(f.path)
}
