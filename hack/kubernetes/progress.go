package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// progress prints the progress of the build: in a terminal one line that it updates, otherwise a
// line every 15 seconds.
type progress struct {
	out      io.Writer
	terminal bool
}

// step is one step of the build. Its methods may be called from several goroutines.
type step struct {
	*progress
	name  string
	began time.Time

	mu          sync.Mutex
	done, total int
	item        string
	stop        chan struct{}
	stopped     sync.WaitGroup
}

func (p *progress) begin(name string, last time.Duration) *step {
	s := &step{progress: p, name: name, began: time.Now(), stop: make(chan struct{})}
	before := ""
	if last > 0 {
		before = fmt.Sprintf(" (last time: %s)", round(last))
	}
	fmt.Fprintf(p.out, "  %s%s\n", name, before)
	interval := 15 * time.Second
	if p.terminal {
		interval = 200 * time.Millisecond
	}
	s.stopped.Go(func() { s.repeat(interval) })
	return s
}

func (s *step) repeat(interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.print()
		}
	}
}

// show sets the progress of the step. A total of 0 means that it is unknown.
func (s *step) show(done, total int, item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done, s.total, s.item = done, max(total, 0), item
}

func (s *step) print() {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := ""
	switch {
	case s.total > 0 && s.done >= s.total-1: // the last package is the program itself
		count = "linking"
	case s.total > 0:
		count = fmt.Sprintf("%d of %d packages (%d %%)", s.done, s.total, 100*s.done/s.total)
	case s.done > 0:
		count = fmt.Sprintf("%d modules", s.done)
	}
	line := fmt.Sprintf("    %6s  %-32s %s", round(time.Since(s.began)), count, s.item)
	if s.terminal {
		const width = 100
		fmt.Fprintf(s.out, "\r\x1b[K%.*s", width, line)
		return
	}
	fmt.Fprintln(s.out, line)
}

func (s *step) end(err error) {
	close(s.stop)
	s.stopped.Wait()
	if s.terminal {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
	word := "done"
	if err != nil {
		word = "failed"
	}
	fmt.Fprintf(s.out, "    %6s  %s\n", round(time.Since(s.began)), word)
}

func round(d time.Duration) time.Duration { return d.Round(time.Second) }

// timings are the durations of the steps, which the next build prints as an estimate.
type timings struct{ Fetch, Compile time.Duration }

const timingsFile = "timings.json"

func readTimings(folder string) timings {
	var last timings
	if content, err := os.ReadFile(filepath.Join(folder, timingsFile)); err == nil {
		_ = json.Unmarshal(content, &last)
	}
	return last
}

func (t timings) write(folder string) {
	if content, err := json.Marshal(t); err == nil {
		_ = os.WriteFile(filepath.Join(folder, timingsFile), content, 0o644)
	}
}

// commandError is a failed command with the end of its output.
type commandError struct {
	err    error
	output []string
}

func (e *commandError) Error() string {
	return fmt.Sprintf("%v\n%s", e.err, strings.Join(e.output, "\n"))
}

func (e *commandError) Unwrap() error { return e.err }

// runLines runs cmd and calls progress with each line of its standard error. Lines for which that
// returns false are kept for the error.
func runLines(cmd *exec.Cmd, progress func(line string) bool) error {
	const keep = 30
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var kept []string
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !progress(lines.Text()) {
			kept = append(kept, lines.Text())
			kept = kept[max(0, len(kept)-keep):]
		}
	}
	if err := cmd.Wait(); err != nil {
		return &commandError{err, kept}
	}
	return nil
}

// explain adds the next step to an error.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	advice := "the lines above are from go: correct the cause and run 'make kubernetes' again, which continues with what is compiled"
	text := err.Error()
	for _, known := range []struct{ symptom, remedy string }{
		{"requires go >=", "install the newer Go that is named above"},
		{"signal: killed", "the compiler was killed, most likely because memory ran out: end other programs, or set GOFLAGS=-p=1, then run 'make kubernetes' again"},
		{"dial tcp", "the Go module proxy cannot be reached: check the network and 'go env GOPROXY', then run 'make kubernetes' again"},
		{"no space left on device", "free some disk space (Go's caches are shown by 'go env GOCACHE GOMODCACHE'), then run 'make kubernetes' again"},
	} {
		if strings.Contains(text, known.symptom) {
			advice = known.remedy
		}
	}
	return fmt.Errorf("%s: %w\nNext step: %s", doing, err, advice)
}
