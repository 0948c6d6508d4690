package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

var begin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// result returns a run in which all objectives hold, with the usage of a sharder.
func result(setup fleet.Setup, instances, objects int, cpu, memory float64) *run.Result {
	var verdicts []run.Verdict
	for _, o := range run.Objectives() {
		value := o.Limit / 2
		verdicts = append(verdicts, run.Verdict{Objective: o, Value: &value, Holds: true})
	}
	return &run.Result{
		Scenario: "basic", Setup: setup, Instances: instances, Load: scenario.Load{Initial: objects}, Begin: begin, End: begin.Add(time.Minute),
		Verdicts: verdicts, Generator: run.Generator{Planned: 100, Done: 100}, Limits: run.DefaultLimits(), Reconciles: 4321,
		Responses:    []run.Latency{{Name: "create a Website", Count: 10, P50: 0.005, P99: 0.02, Max: 0.025}},
		APILatencies: []run.Latency{{Name: "PATCH websites", Count: 70, P50: 0.003, P99: 0.9, Max: 60, Open: true}},
		Processes: []run.Figures{
			{Name: fleet.Sharder, CPU: cpu, InUse: memory, Resident: 2 * memory},
			{Name: "webhosting-operator-0", CPU: 0.2, InUse: 30 << 20, Requests: map[string]float64{"PATCH": 12}},
			{Name: "webhosting-operator-1", CPU: 0.3, InUse: 20 << 20},
		},
		Together: run.Figures{CPU: 0.45, Resident: 40 << 20},
		Requests: map[string]float64{"LIST": 77},
		Charts: map[string][]measure.Series{"cpu": {{
			Labels: map[string]string{"process": fleet.Sharder},
			Points: []measure.Point{{At: begin, Value: cpu}, {At: begin.Add(time.Minute), Value: cpu}},
		}}},
	}
}

// read writes a report, checks its page, and returns its Markdown.
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

func TestReport(t *testing.T) {
	t.Parallel()
	failing := result(fleet.External, 3, 0, 0.05, 20<<20)
	failing.Verdicts[0].Holds, *failing.Verdicts[0].Value = false, 96.8
	failing.Verdicts[1].Holds, *failing.Verdicts[1].Value = false, 17
	failing.Verdicts[2].Request = "PATCH websites/status"
	failing.Interrupted = true
	failing.Overlaps = []string{"a/b: two instances"}
	failing.Generator = run.Generator{Planned: 100, Done: 80, Late: 3, Busy: 0.95}
	failing.Invalid = []string{"the machine was saturated: 95% of its CPU time was in use (--max-cpu 0.9)"}
	failing.Events = []run.Event{{At: begin.Add(30 * time.Second), Description: "something is killed", Planned: true}}
	failing.Ownership = run.Ownership{Ownerless: 7, OwnerlessSeconds: 70, Moves: 10, LabelWrites: 20}
	failing.Recoveries = []run.Recovery{{At: begin.Add(30 * time.Second), Instance: "webhosting-operator-1", Websites: 150, P50: 14, Max: 19.5, Missing: 1}}
	failing.Admission = []run.Latency{{Name: "request in the sharder", Count: 100, P50: 0.0002, P99: 0.001, Max: 0.0016}}
	r := &Report{About: About{Command: "ringmaster experiment basic", Interrupted: true}, Scenario: "basic", Results: []*run.Result{result(fleet.InProcess, 3, 0, 0, 0), failing}}
	contains(t, read(t, r), "in-process, 3×", "100 ms to 1 s ✓ holds", "500 ms ✓ holds", "10 s to 100 s ✗ does not hold", "17 s ✗ does not hold",
		"500 ms (PATCH websites/status) ✓ holds", "1 of 4,321 ✗", "a/b: two instances",
		"external, 3×: invalid: the machine was saturated: 95%", "| external, 3× | 80 / 100 | 0 | 3 s | 95% | 0% | 0% | ✗ no |", "at most 500ms late, all but 1% of them",
		"| users: create a Website | 10 | 5 ms | 20 ms | 25 ms |", "| API server: PATCH websites | 70 | 3 ms | 900 ms | more than 60 s |",
		"| admission: request in the sharder | 100 | 0.200 ms | 1 ms | 1.60 ms |",
		"| external, 3× | 30s | webhosting-operator-1 | 150 | 14 s | 19.5 s | 1 |",
		"30s: something is killed", "| instance with the highest CPU | 0.300 cores | 0.300 cores |", "| all instances: CPU | 0.450 cores |",
		"| all instances: resident memory, on average | 40 MiB |", "PATCH 12", "| 77 |",
		"| external, 3× | 7 | 70 s | 10 | 2 |", "was interrupted", "`ringmaster experiment basic`", "![CPU, by process](pictures/external-3-0-cpu.svg)")
	contains(t, r.Summary(), "external, 3×       NOT all objectives hold: queue: time until a worker starts on a Website: 10 s to 100 s (at most 1 s)",
		"1 overlapping reconciles", "; interrupted after 1m0s; INVALID: the machine was saturated", "in-process, 3×     all objectives hold")
}

func TestBySize(t *testing.T) {
	t.Parallel()
	r := &Report{Scenario: "size", Results: []*run.Result{result(fleet.External, 3, 1000, 0.02, 20<<20), result(fleet.External, 3, 10_000, 0.021, 21<<20)}}
	contains(t, read(t, r), "external, 3×, 10,000 Websites", "| external | 1,000 | 0.020 cores, 1× |", "| external | 10,000 | 0.021 cores, 1.05× | 21 MiB, 1.05× |", "pictures/size-cpu.svg")
}

// Repetitions are summarised by median and range, and the multiple is that of the same repetition.
func TestCapacity(t *testing.T) {
	t.Parallel()
	r := &Report{Scenario: "scale-out"}
	for i, capacity := range [][2]float64{{200, 1000}, {250, 1000}, {220, 1100}} {
		one, five := result(fleet.External, 1, 0, 0, 0), result(fleet.External, 5, 0, 0, 0)
		one.Capacity, five.Capacity = &run.Capacity{Objects: capacity[0], Changes: 10, Limit: "queue: slow"}, &run.Capacity{Objects: capacity[1], Changes: 47}
		one.Repeat, five.Repeat = i+1, i+1
		r.Results = append(r.Results, one, five)
	}
	saturated := result(fleet.InProcess, 1, 0, 0, 0)
	r.Results = append(r.Results, saturated)
	contains(t, read(t, r), "| external, 1× | 3 | 220 (200 to 250) | 10 (10 to 10) | 1× (1× to 1×) | queue |",
		"| external, 5× | 3 | 1,000 (1,000 to 1,100) | 47 (47 to 47) | 5× (4× to 5×) | none until the end: the capacity may be higher |",
		"| in-process, 1× | 0 | – | – | – | an objective does not hold at the initial load |", "pictures/capacity.svg", "pictures/external-5-0-run3-cpu.svg", "| external, 1×, run 2 |")
	contains(t, r.Summary(), "external, 5×, run 3 up to 1,100 Websites, 47 changes/s")
}

// A summary is small, and can be read again.
func TestSummaryForRepository(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "results")
	r := &Report{Scenario: "size", Results: []*run.Result{result(fleet.External, 3, 1000, 0.02, 20<<20), result(fleet.External, 3, 10_000, 0.021, 21<<20)}}
	if err := r.WriteSummary(folder); err != nil {
		t.Fatal(err)
	}
	var files []string
	if err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if !entry.IsDir() {
			name, _ := filepath.Rel(folder, path)
			files = append(files, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"pictures/size-cpu.svg", "pictures/size-memory.svg", "report.md", "results.json"}; !slices.Equal(files, want) {
		t.Errorf("got %v, want %v", files, want)
	}
	again, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Groups()[1].Usage(fleet.Sharder, CPU); got.Median != 0.021 || again.Results[0].Processes[1].Requests != nil {
		t.Errorf("got %+v", got)
	}
}
