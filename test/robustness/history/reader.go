package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// Read returns the events of several files, ordered by time.
func Read(paths ...string) ([]Event, error) {
	var all []Event
	for _, path := range paths {
		events, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the record %s: %w", path, err)
		}
		all = append(all, events...)
	}
	// Stable, so that events of one process with the same time stay in order.
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
			// The write of a killed process can be incomplete. The process had not continued after
			// that event.
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
