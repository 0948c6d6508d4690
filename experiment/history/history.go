// Package history reads in the logs of instances who worked on what when, and finds Websites that two of them worked on at the
// same time.
package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Line is something that happened to a Website, or to an instance.
type Line struct {
	At        time.Time `json:"ts"`
	Message   string    `json:"msg"`
	Instance  string    `json:"instance"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// ID is the same for the beginning and the end of a reconcile.
	ID string `json:"id"`
}

// Ended tells whether it is the end of a reconcile.
func (l Line) Ended() bool { return l.Message == ends }

// What an instance writes of a reconcile, and what is known of its death.
const (
	begins = "Reconcile begins"
	ends   = "Reconcile ends"
	halted = "halted"
)

// Halted is that an instance was killed: what it was at has ended.
func Halted(instance string, at time.Time) Line {
	return Line{At: at, Message: halted, Instance: instance}
}

// Read reads the log of an instance. A last line that was not written to its end is left out.
func Read(path string) ([]Line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading who worked on what: %w", err)
	}
	defer file.Close()
	var all []Line
	const longest = 1 << 20
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, longest)
	for scanner.Scan() {
		if !strings.Contains(scanner.Text(), `"Reconcile `) {
			continue
		}
		var line Line
		if json.Unmarshal(scanner.Bytes(), &line) == nil && (line.Message == begins || line.Message == ends) {
			all = append(all, line)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading who worked on what in %s: %w", path, err)
	}
	return all, nil
}

// Reconciles counts those that have begun.
func Reconciles(lines []Line) int {
	n := 0
	for _, line := range lines {
		if line.Message == begins {
			n++
		}
	}
	return n
}

// Doubles are the reconciles that began while another instance was at work on the same Website.
func Doubles(lines []Line) (found []string) {
	lines = slices.SortedStableFunc(slices.Values(lines), func(a, b Line) int { return a.At.Compare(b.At) })
	working := map[string]string{}
	for _, line := range lines {
		website := line.Namespace + "/" + line.Name
		switch line.Message {
		case begins:
			if other := working[website]; other != "" && other != line.Instance {
				found = append(found, fmt.Sprintf("%s: %s began at %s while %s was at work", website, line.Instance, line.At.Format(time.TimeOnly), other))
			}
			working[website] = line.Instance
		case ends:
			if working[website] == line.Instance { // and not another's, after it was paused
				delete(working, website)
			}
		case halted:
			maps.DeleteFunc(working, func(_, at string) bool { return at == line.Instance })
		}
	}
	return found
}
