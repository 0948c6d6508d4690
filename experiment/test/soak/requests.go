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

// AuditPolicy makes the API server log a line for each request of a tested process, and two for a watch: when it begins, and when it
// ends.
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`

// Requests counts the requests and the open watches of each process in the API server's audit log. The Pod that its token is bound to
// identifies a process.
type Requests struct {
	path string

	mu      sync.Mutex
	read    int64
	total   map[string]float64
	watches map[string]map[string]bool // by process, then by the request's ID
}

// NewRequests returns the counts of an audit log.
func NewRequests(path string) *Requests {
	return &Requests{path: path, total: map[string]float64{}, watches: map[string]map[string]bool{}}
}

// Of returns how many requests a process has sent until now, and how many watches it has open.
func (r *Requests) Of(process string) (total, watches float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total[process], float64(len(r.watches[process]))
}

// Update reads the lines that were written since its last call.
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
		if err := r.add(line); err != nil {
			return err
		}
		r.read += int64(len(line) + 1)
		content = rest
	}
}

// auditEvent has the relevant fields of a line. The type in k8s.io/apiserver would need hundreds of packages.
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

func (r *Requests) add(line []byte) error {
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
