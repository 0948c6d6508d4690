package history

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Recorder appends events to a file. It is safe for concurrent use.
type Recorder struct {
	now func() time.Time

	mu   sync.Mutex
	file *os.File
}

// NewRecorder opens a file for a single Recorder. now returns the time of the machine.
func NewRecorder(path string, now func() time.Time) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the record: %w", err)
	}
	return &Recorder{now: now, file: file}, nil
}

// Record appends an event with the current time. It panics if the file cannot be written, because an
// incomplete record cannot be checked.
func (r *Recorder) Record(event Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	event.Time = r.now() // under the lock, so that the file is in order
	line, err := json.Marshal(event)
	if err != nil {
		panic(fmt.Sprintf("recording %+v: %v", event, err))
	}
	// One write, so that the event is stored even if the process is killed next.
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		panic(fmt.Sprintf("recording %+v: %v", event, err))
	}
}

// Close closes the file.
func (r *Recorder) Close() error { return r.file.Close() }
