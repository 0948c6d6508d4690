package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// argsPrefix starts the line with the arguments of the benchmarks.
const argsPrefix = "# ARGS: "

// processors matches the number of processors that go test appends to a benchmark's name.
var processors = regexp.MustCompile(`-\d+$`)

// parse reads the output of `go test -bench`.
func parse(output string) (measured run, err error) {
	measured.values = map[id][]float64{}
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if args, ok := strings.CutPrefix(line, strings.TrimSpace(argsPrefix)); ok {
			measured.args = strings.TrimSpace(args)
		}
		fields := strings.Fields(line)
		if !strings.HasPrefix(line, "Benchmark") || len(fields) < 4 {
			continue
		}
		if _, err := strconv.Atoi(fields[1]); err != nil {
			continue // a line of a log
		}
		name := processors.ReplaceAllString(fields[0], "")
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return run{}, fmt.Errorf("reading a benchmark's figures: %w: %s", err, line)
			}
			key := id{name, fields[i+1]}
			measured.values[key] = append(measured.values[key], value)
		}
	}
	return measured, nil
}

// machineOf returns the description of the machine in the output.
func machineOf(output string, cores int) string {
	machine := fmt.Sprintf("%d cores", cores)
	for line := range strings.Lines(output) {
		if name, ok := strings.CutPrefix(line, "cpu: "); ok {
			return machine + ", " + strings.TrimSpace(name)
		}
	}
	return machine
}
