package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// line is a line of the log of an operator.
type line struct {
	Message         string `json:"msg"`
	Name, ID, Error string
}

const begins, ends = "Reconcile begins", "Reconcile ends"

// reconcileLog collects the log of an operator.
type reconcileLog struct {
	mu    sync.Mutex
	lines []line
	all   []string
}

// logger returns a logger that writes to the log.
func (h *reconcileLog) logger() logr.Logger {
	return funcr.NewJSON(h.record, funcr.Options{Verbosity: 1})
}

func (h *reconcileLog) record(written string) {
	read := line{}
	err := json.Unmarshal([]byte(written), &read)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, written)
	if err == nil {
		h.lines = append(h.lines, read)
	}
}

func (h *reconcileLog) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = nil
}

// reconciled returns the number of completed reconciles by the name of the Website.
func (h *reconcileLog) reconciled() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := map[string]int{}
	for _, l := range h.lines {
		if l.Message == ends {
			counts[l.Name]++
		}
	}
	return counts
}

// overlaps returns the reconciles that began during another reconcile of the same Website, and the
// maximum number of concurrent reconciles.
func (h *reconcileLog) overlaps() (found []string, maxConcurrent int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	working := map[string]string{}
	for _, l := range h.lines {
		switch l.Message {
		case begins:
			if other := working[l.Name]; other != "" {
				found = append(found, fmt.Sprintf("%s: %s began before %s ended", l.Name, l.ID, other))
			}
			working[l.Name] = l.ID
			maxConcurrent = max(maxConcurrent, len(working))
		case ends:
			delete(working, l.Name)
		}
	}
	return found, maxConcurrent
}

// failures returns the logged errors.
func (h *reconcileLog) failures() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []string
	for _, l := range h.lines {
		if l.Error != "" {
			found = append(found, l.Message+": "+l.Error)
		}
	}
	return found
}

// TestOverlaps expects that concurrent reconciles of a Website are found.
func TestOverlaps(t *testing.T) {
	h := &reconcileLog{lines: []line{
		{Message: begins, Name: "a", ID: "1"},
		{Message: begins, Name: "b", ID: "2"},
		{Message: ends, Name: "a", ID: "1"},
		{Message: begins, Name: "a", ID: "3"},
	}}
	if found, maxConcurrent := h.overlaps(); len(found) != 0 || maxConcurrent != 2 {
		t.Errorf("got %v, %d", found, maxConcurrent)
	}
	h.lines = append(h.lines, line{Message: begins, Name: "a", ID: "4"})
	if found, _ := h.overlaps(); len(found) != 1 {
		t.Errorf("got %v", found)
	}
}
