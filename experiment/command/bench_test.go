package command_test

import (
	"flag"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/command"
	"github.com/ringmaster-project/ringmaster/experiment/report"
	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

var (
	websites = flag.Int("websites", 3000, "number of Websites for BenchmarkShare")
	lasts    = flag.Duration("load-for", 2*time.Minute, "how long BenchmarkShare generates load")
)

// BenchmarkShare reports the usage of one of three shards as a share of that of a single leader, with the same Websites and load. Of
// the shards it takes the highest usage.
func BenchmarkShare(b *testing.B) {
	for b.Loop() {
		out := filepath.Join(b.TempDir(), "report")
		_, err := experiment(b.Context(), &output{}, "basic", "--setups", "lead,external", "--objects", strconv.Itoa(*websites), "--scale", "0.2",
			"--duration", lasts.String(), "--programs", rig.Programs(b, "./cmd/sharder", "./examples/webhosting"), "--assets", rig.Assets(b), "--out", out, "--quiet")
		const missedObjective = 3 // on a slow machine; the ratios are valid
		if code := command.ExitCode(err); code != 0 && code != missedObjective {
			b.Fatal(err)
		}
		got, err := report.Read(out)
		if err != nil {
			b.Fatal(err)
		}
		lead, sharded := got.Groups()[0], got.Groups()[1]
		for _, of := range []struct {
			name, unit string
			figure     func(run.Figures) float64
		}{
			{"live heap", "x-live-heap", report.LiveHeap},
			{"received bytes", "x-received", report.Received},
			{"resident memory", "x-resident", report.Resident},
		} {
			leader, shard := lead.Spread(report.Leader(of.figure)), sharded.Spread(report.Highest(of.figure))
			b.ReportMetric(shard.Median/leader.Median, of.unit)
			b.Logf("one of three shards / single leader with %d Websites: %s: %.3f", *websites, of.name, shard.Median/leader.Median)
		}
	}
}
