package main

import (
	"strings"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/report"
	"github.com/ringmaster-project/ringmaster/experiment/run"
)

func result(setup fleet.Setup, instances, repeat int, websites float64) *run.Result {
	return &run.Result{
		Setup: setup, Instances: instances, Repeat: repeat, Reconciles: 1000, Begin: time.Unix(0, 0),
		Capacity:  &run.Capacity{Objects: websites, Changes: websites / 100, Busy: 0.6, Limit: "queue: time until a worker starts"},
		Responses: []run.Latency{{Name: "Website Ready", Count: 10, P50: 0.1, P99: 2, Max: 3}},
		Processes: []run.Figures{
			{Name: "webhosting-operator-0", CPU: 0.2, LiveHeap: 30 << 20, Reconciles: 500},
			{Name: "webhosting-operator-1", CPU: 0.1, LiveHeap: 20 << 20},
			{Name: fleet.Sharder, CPU: 0.01, InUse: 14 << 20, Resident: 45 << 20},
			{Name: report.Etcd, CPU: 0.3, Resident: 100 << 20},
		},
		Recoveries: []run.Recovery{{Websites: 150, P50: 14, Max: 19.5}},
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	all := map[string]*report.Report{
		"capacity": {About: report.About{Command: "ringmaster experiment scale-out"}, Results: []*run.Result{
			result(fleet.External, 1, 1, 600), result(fleet.External, 5, 1, 2900), result(fleet.External, 1, 2, 620), result(fleet.External, 5, 2, 3100),
		}},
		"setups": {Results: []*run.Result{result(fleet.Lead, 2, 0, 0), result(fleet.External, 2, 0, 0)}},
		"chaos":  {Results: []*run.Result{result(fleet.External, 3, 0, 0)}},
	}
	results := func(name string) (*report.Report, error) { return all[name], nil }
	for name, want := range map[string]string{
		"capacity":      "| 5 | 2 | 3,000 (2,900 to 3,100) | 30 (29 to 31) | 4.92× (4.83× to 5×) | 60% (60% to 60%) | queue |",
		"setups":        "| live heap | 30 MiB | 20 MiB | 30 MiB | 1.00 |",
		"control-plane": "| etcd: CPU | 0.300 cores | 0.300 cores |",
		"share":         "| CPU | 0.200 cores | 0.100 cores | 0.200 cores | 1.00 | 0.010 cores |",
		"disturbances":  "| `chaos` | 0 | 150 Websites: p50 14.0 s, all 19.5 s | 0 | – | 100 ms, 2 s, 3 s | 0 |",
		"headline":      "| overlapping reconciles of one Website | 0 of 7,000 in 7 runs |",
		"conditions":    "| [capacity](../results/capacity/report.md) | 4 | 1970-01-01 | `ringmaster experiment scale-out` |",
	} {
		before := "text\n\n<!-- figures: " + name + " -->\nold\n<!-- end of figures -->\n\nmore"
		got, err := replace(before, results)
		if err != nil || !strings.Contains(got, want) || strings.Contains(got, "old\n") || !strings.HasPrefix(got, "text\n") || !strings.HasSuffix(got, "\nmore") {
			t.Errorf("%s: got %v\n%s\nwant %s", name, err, got, want)
		}
		if again, err := replace(got, results); err != nil || again != got {
			t.Errorf("%s: filling it again gives %v\n%s", name, err, again)
		}
	}
	sentence := "It sustains <!-- figure: capacity-ratio -->4×<!-- end --> the load."
	if got, err := replace(sentence, results); err != nil || got != "It sustains <!-- figure: capacity-ratio -->4.92× (4.83× to 5×)<!-- end --> the load." {
		t.Errorf("got %v %s", err, got)
	}
	all["capacity"].Results[1].Capacity.Limit = ""
	open, err := headline(results)
	if want := "| 4.92× (4.83× to 5×), 2 runs; 1 of 4 ramps did not reach the capacity |"; err != nil || !strings.Contains(open, want) {
		t.Errorf("got %v\n%s\nwant %s", err, open, want)
	}
	unmeasured := "<!-- figures: size -->\nearlier figures\n<!-- end of figures -->"
	if got, err := replace(unmeasured, results); err != nil || got != unmeasured {
		t.Errorf("a block without results changed: %v %s", err, got)
	}
	if _, err := replace("<!-- figures: sizes -->\n<!-- end of figures -->", results); err == nil {
		t.Error("an unknown block is not an error")
	}
}
