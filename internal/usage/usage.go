// Package usage measures a process's use of resources, as the kernel accounts for it, for benchmarks and experiments.
//
// It promises that both count the same: CPU time of user and kernel, memory in bytes, and all bytes that were read and written.
package usage

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process is a process's use of resources since it started.
type Process struct {
	CPU time.Duration
	// Resident is the memory in use, Anonymous the part of it that is not backed by a file, and Peak the highest Resident, in bytes.
	Resident, Anonymous, Peak float64
	// Received and Sent are all bytes read and written, including files such as logs.
	Received, Sent float64
}

const (
	ticksPerSecond = 100 // USER_HZ, the same on all platforms that Go supports
	kibibyte       = 1024
)

// Of returns a process's use of resources.
func Of(pid int) (Process, error) {
	p := Process{}
	var err error
	if p.CPU, err = cpu(pid); err != nil {
		return Process{}, err
	}
	err = fields(pid, "status", map[string]*float64{"VmRSS": &p.Resident, "RssAnon": &p.Anonymous, "VmHWM": &p.Peak}, kibibyte)
	if err != nil {
		return Process{}, err
	}
	return p, fields(pid, "io", map[string]*float64{"rchar": &p.Received, "wchar": &p.Sent}, 1)
}

func read(pid int, file string) (string, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return "", fmt.Errorf("reading the usage of process %d: %w", pid, err)
	}
	return string(content), nil
}

// cpu returns the CPU time that a process has used.
func cpu(pid int) (time.Duration, error) {
	content, err := read(pid, "stat")
	if err != nil {
		return 0, err
	}
	// The fields after the program's name, which is in parentheses, start with the third one.
	const user, system = 11, 12
	found := strings.Fields(content[strings.LastIndexByte(content, ')')+1:])
	if len(found) <= system {
		return 0, fmt.Errorf("reading the usage of process %d: /proc/%d/stat has no CPU time", pid, pid)
	}
	ticks := 0
	for _, field := range []string{found[user], found[system]} {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// fields reads lines of the form "name: value". A line that is missing leaves 0: a process that is exiting has no memory.
func fields(pid int, file string, into map[string]*float64, unit float64) error {
	content, err := read(pid, file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(content) {
		name, rest, _ := strings.Cut(line, ":")
		value, words := into[name], strings.Fields(rest)
		if value == nil || len(words) == 0 {
			continue
		}
		number, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			return fmt.Errorf("reading %s of process %d: %w", name, pid, err)
		}
		*value = number * unit
	}
	return nil
}
