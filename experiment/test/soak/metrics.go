package soak

import (
	"fmt"
	"strconv"
	"strings"
)

// ReadMetrics reads the metrics of a Go process in Prometheus' text format.
func ReadMetrics(text string) (heap, goroutines, files float64, err error) {
	values := map[string]*float64{"go_memstats_heap_inuse_bytes": &heap, "go_goroutines": &goroutines, "process_open_fds": &files}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		into := values[name]
		if into == nil {
			continue
		}
		if *into, err = strconv.ParseFloat(value, 64); err != nil {
			return 0, 0, 0, fmt.Errorf("reading the metric %s: %w", name, err)
		}
		delete(values, name)
	}
	for name := range values {
		return 0, 0, 0, fmt.Errorf("the metric %s is missing", name)
	}
	return heap, goroutines, files, nil
}
