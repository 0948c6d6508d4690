package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// Read returns the events of several files, in the order of their times.
func Read(paths ...string) ([]Event, error) {
	var all []Event
	for _, path := range paths {
		events, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the record %s: %w", path, err)
		}
		all = append(all, events...)
	}
	// Stable, so that events of one process stay in their order when a clock was too coarse.
	slices.SortStableFunc(all, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return all, nil
}

func readFile(path string) ([]Event, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var events []Event
	for number := 1; ; number++ {
		line, rest, complete := bytes.Cut(content, []byte{'\n'})
		if !complete {
			// The kernel can end a killed process's write between two pages. What the line was to
			// tell of had not gone on by then.
			return events, nil
		}
		var event Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		events = append(events, event)
		content = rest
	}
}
