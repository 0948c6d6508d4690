package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// line is what is read of a line of an operator's log.
type line struct {
	Message         string `json:"msg"`
	Name, ID, Error string
}

const begins, ends = "Reconcile begins", "Reconcile ends"

// history is what an operator's log tells of its reconciles.
type history struct {
	mu    sync.Mutex
	lines []line
	all   []string
}

// logger writes into the history.
func (h *history) logger() logr.Logger {
	return funcr.NewJSON(h.note, funcr.Options{Verbosity: 1})
}

func (h *history) note(written string) {
	read := line{}
	err := json.Unmarshal([]byte(written), &read)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, written)
	if err == nil {
		h.lines = append(h.lines, read)
	}
}

func (h *history) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = nil
}

// reconciled counts the reconciles that have ended, by the Websites' names.
func (h *history) reconciled() map[string]int {
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

// overlaps are reconciles that began while the same Website was being worked on, and most is how many
// Websites were worked on at the same time.
func (h *history) overlaps() (found []string, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	working := map[string]string{}
	for _, l := range h.lines {
		switch l.Message {
		case begins:
			if other := working[l.Name]; other != "" {
				found = append(found, fmt.Sprintf("%s: %s began before %s had ended", l.Name, l.ID, other))
			}
			working[l.Name] = l.ID
			most = max(most, len(working))
		case ends:
			delete(working, l.Name)
		}
	}
	return found, most
}

// failures are the errors that were logged.
func (h *history) failures() []string {
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

// TestOverlaps looks whether the history tells two workers on one Website.
func TestOverlaps(t *testing.T) {
	h := &history{lines: []line{
		{Message: begins, Name: "a", ID: "1"},
		{Message: begins, Name: "b", ID: "2"},
		{Message: ends, Name: "a", ID: "1"},
		{Message: begins, Name: "a", ID: "3"},
	}}
	if found, most := h.overlaps(); len(found) != 0 || most != 2 {
		t.Errorf("got %v, %d", found, most)
	}
	h.lines = append(h.lines, line{Message: begins, Name: "a", ID: "4"})
	if found, _ := h.overlaps(); len(found) != 1 {
		t.Errorf("got %v", found)
	}
}
