package soak

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// AuditPolicy makes the API server write a line for each request of a process that is tested, and two for a watch: when it
// has begun, and when it has ended.
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`

// Requests counts the requests and the open watches of each process, as the API server sees them. A process is known by
// the Pod that its token is bound to.
type Requests struct {
	path string

	mu      sync.Mutex
	read    int64
	total   map[string]float64
	watches map[string]map[string]bool // by process, then by the request's ID
}

// NewRequests reads an audit log.
func NewRequests(path string) *Requests {
	return &Requests{path: path, total: map[string]float64{}, watches: map[string]map[string]bool{}}
}

// Of returns how many requests a process has sent until now, and how many watches it has open.
func (r *Requests) Of(process string) (total, watches float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total[process], float64(len(r.watches[process]))
}

// Update reads what was written since the last time.
func (r *Requests) Update() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	file, err := os.Open(r.path)
	if err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(r.read, io.SeekStart); err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	for {
		line, rest, complete := bytes.Cut(content, []byte{'\n'})
		if !complete { // it is being written
			return nil
		}
		if err := r.note(line); err != nil {
			return err
		}
		r.read += int64(len(line) + 1)
		content = rest
	}
}

// auditEvent is what counts of a line. k8s.io/apiserver has the type, with hundreds of packages.
type auditEvent struct {
	ID    string `json:"auditID"`
	Stage string `json:"stage"`
	Verb  string `json:"verb"`
	User  struct {
		Extra map[string][]string `json:"extra"`
	} `json:"user"`
}

const podName = "authentication.kubernetes.io/pod-name"

var errNoID = errors.New("an audit event has no ID")

func (r *Requests) note(line []byte) error {
	var event auditEvent
	if err := json.Unmarshal(line, &event); err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	if event.ID == "" {
		return errNoID
	}
	names := event.User.Extra[podName]
	if len(names) != 1 {
		return nil // not one of the processes
	}
	process := names[0]
	open := r.watches[process]
	if open == nil {
		open = map[string]bool{}
		r.watches[process] = open
	}
	switch {
	case event.Verb == "watch" && event.Stage == "ResponseStarted":
		r.total[process]++
		open[event.ID] = true
	case event.Verb == "watch":
		if !open[event.ID] {
			r.total[process]++ // it was refused
		}
		delete(open, event.ID)
	case event.Stage != "ResponseStarted":
		r.total[process]++
	}
	return nil
}
