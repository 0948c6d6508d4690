// Package history reads the reconciles of all instances from their logs, and finds those of one Website that overlap, and how long
// Websites of a killed instance waited for the next one.
//
// It promises that a reconcile is known by what the instance itself has logged, and not by what the API server shows of it.
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

// Line is a log line about a reconcile, or the end of an instance.
type Line struct {
	At        time.Time `json:"ts"`
	Message   string    `json:"msg"`
	Instance  string    `json:"instance"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// ID is the same for the begin and the end of a reconcile.
	ID string `json:"id"`
}

// Ended reports whether the line is the end of a reconcile.
func (l Line) Ended() bool { return l.Message == ends }

func (l Line) website() string { return l.Namespace + "/" + l.Name }

// The messages of an instance, and the one that stands for its end.
const (
	begins = "Reconcile begins"
	ends   = "Reconcile ends"
	exited = "exited"
)

// Exited returns the line for an instance that has exited or was killed, which ended its reconciles.
func Exited(instance string, at time.Time) Line {
	return Line{At: at, Message: exited, Instance: instance}
}

// Read reads the log of an instance. It ignores an incomplete last line.
func Read(path string) ([]Line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the log of an instance: %w", err)
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
		return nil, fmt.Errorf("reading the log %s: %w", path, err)
	}
	return all, nil
}

// Reconciles returns the number of reconciles.
func Reconciles(lines []Line) int {
	n := 0
	for _, line := range lines {
		if line.Message == begins {
			n++
		}
	}
	return n
}

// Overlaps describes the reconciles that began while another instance reconciled the same Website.
func Overlaps(lines []Line) (found []string) {
	lines = slices.SortedStableFunc(slices.Values(lines), func(a, b Line) int { return a.At.Compare(b.At) })
	reconciling := map[string]string{} // by Website: the instance
	for _, line := range lines {
		website := line.website()
		switch line.Message {
		case begins:
			if other := reconciling[website]; other != "" && other != line.Instance {
				found = append(found, fmt.Sprintf("%s: %s began at %s while %s was reconciling it", website, line.Instance, line.At.Format(time.TimeOnly), other))
			}
			reconciling[website] = line.Instance
		case ends:
			if reconciling[website] == line.Instance { // and not that of another one, after a pause
				delete(reconciling, website)
			}
		case exited:
			maps.DeleteFunc(reconciling, func(_, instance string) bool { return instance == line.Instance })
		}
	}
	return found
}

// LastBefore returns the instance that has begun the last reconcile before a time.
func LastBefore(lines []Line, at time.Time) string {
	var last Line
	for _, line := range lines {
		if line.Message == begins && line.At.Before(at) && line.At.After(last.At) {
			last = line
		}
	}
	return last.Instance
}

// Recovery returns how long after a time each of some Websites, given as namespace/name, was reconciled to the end by another
// instance than the killed one. It also returns those that never were.
func Recovery(lines []Line, killed string, at time.Time, websites []string) (took []time.Duration, missing []string) {
	first := map[string]time.Time{}
	for _, line := range lines {
		if line.Message != ends || line.Instance == killed || !line.At.After(at) {
			continue
		}
		if found, ok := first[line.website()]; !ok || line.At.Before(found) {
			first[line.website()] = line.At
		}
	}
	for _, website := range websites {
		if end, ok := first[website]; ok {
			took = append(took, end.Sub(at))
		} else {
			missing = append(missing, website)
		}
	}
	slices.Sort(took)
	return took, missing
}
