package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

var begin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// result is one in which all holds, of a sharder that needs so much of a core and memory.
func result(setup fleet.Setup, instances, objects int, cpu, memory float64) *run.Result {
	var verdicts []run.Verdict
	for _, o := range run.Objectives() {
		value := o.Limit / 2
		verdicts = append(verdicts, run.Verdict{Objective: o, Value: &value, Holds: true})
	}
	return &run.Result{
		Scenario: "basic", Setup: setup, Instances: instances, Load: scenario.Load{Initial: objects}, Begin: begin, End: begin.Add(time.Minute),
		Verdicts: verdicts, Generator: run.Generator{Planned: 100, Done: 100}, Reconciles: 4321,
		Processes: []run.Figures{
			{Name: fleet.Sharder, CPU: cpu, InUse: memory, Resident: 2 * memory},
			{Name: "webhosting-operator-0", CPU: 0.2, InUse: 30 << 20, Requests: map[string]float64{"PATCH": 12}},
			{Name: "webhosting-operator-1", CPU: 0.3, InUse: 20 << 20},
		},
		Together: run.Figures{CPU: 0.45, Resident: 40 << 20},
		Requests: map[string]float64{"LIST": 77},
		Charts: map[string][]measure.Line{"cpu": {{
			Labels: map[string]string{"process": fleet.Sharder},
			Points: []measure.Point{{At: begin, Value: cpu}, {At: begin.Add(time.Minute), Value: cpu}},
		}}},
	}
}

// read writes a report and returns its Markdown. Its page is one that can be read.
func read(t *testing.T, r *Report) string {
	t.Helper()
	folder := t.TempDir()
	if err := r.Write(folder); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(folder, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(strings.NewReader(string(page)))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return string(text)
}

func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in\n%s", w, text)
		}
	}
}

func TestSideBySide(t *testing.T) {
	t.Parallel()
	failing := result(fleet.External, 3, 0, 0.05, 20<<20)
	failing.Verdicts[0].Holds, *failing.Verdicts[0].Value = false, 96.8
	failing.Verdicts[1].Holds, *failing.Verdicts[1].Value = false, 17
	failing.Interrupted = true
	failing.Doubles = []string{"a/b: two at once"}
	failing.Generator = run.Generator{Planned: 100, Done: 80, Late: 3, Busy: 0.95}
	failing.Events = []run.Happened{{At: begin.Add(30 * time.Second), What: "something is killed", Meant: true}}
	failing.Ownership = run.Ownership{Ownerless: 7, OwnerlessSeconds: 70, Moves: 10, LabelWrites: 20}
	r := &Report{About: About{Command: "ringmaster experiment basic", Cut: true}, Scenario: "basic", Results: []*run.Result{result(fleet.InProcess, 3, 0, 0, 0), failing}}
	contains(t, read(t, r), "in-process, 3×", "100 ms to 1 s ✓ holds", "500 ms ✓ holds", "10 s to 100 s ✗ does not hold", "17 s ✗ does not hold", "1 of 4,321 ✗", "a/b: two at once", "this machine, and not the system, was the limit",
		"30s: something is killed", "at work for 95 % of the time", "| CPU of the instance with most | 0.300 cores | 0.300 cores |", "| CPU of all instances | 0.450 cores |", "| resident memory of all instances, on average | 40 MiB |", "PATCH 12", "| 77 |",
		"| external, 3× | 7 | 70 s × Websites | 10 | 2 |", "ended before its time", "`ringmaster experiment basic`", "![CPU, by process](pictures/external-3-0-cpu.svg)")
	contains(t, r.Summary(), "external, 3×       NOT all objectives hold: queue: a Website waits for a worker: 10 s to 100 s instead of 1 s; ready: from a change to the observed generation being Ready: 17 s instead of 5 s; 1 reconciles",
		"; it was ended after 1m0s, before its time", "; the load was not what was promised: this machine, and not the system, was the limit", "in-process, 3×     all objectives hold")
}

func TestBySize(t *testing.T) {
	t.Parallel()
	r := &Report{Scenario: "size", Results: []*run.Result{result(fleet.External, 3, 1000, 0.02, 20<<20), result(fleet.External, 3, 10_000, 0.021, 21<<20)}}
	contains(t, read(t, r), "external, 3×, 10,000 Websites", "| external | 1,000 | 0.020 cores (1 times) |", "| external | 10,000 | 0.021 cores (1.05 times) | 21 MiB (1.05 times) |", "pictures/size-cpu.svg")
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	one, five := result(fleet.External, 1, 0, 0, 0), result(fleet.External, 5, 0, 0, 0)
	one.Capacity, five.Capacity = &run.Capacity{Objects: 200, Changes: 10, GaveWay: "queue"}, &run.Capacity{Objects: 920, Changes: 47}
	r := &Report{Scenario: "scale-out", Results: []*run.Result{one, five, result(fleet.InProcess, 1, 0, 0, 0)}}
	contains(t, read(t, r), "| external, 1× | 200 | 10 | 1 times | queue |", "| external, 5× | 920 | 47 | 4.60 times | nothing until the end: it may be more |",
		"| in-process, 1× | – | – | – | not borne from the beginning on |", "pictures/capacity.svg")
	contains(t, r.Summary(), "up to 920 Websites, 47 changes/s")
}
