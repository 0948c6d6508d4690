package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/natscluster/agent"
	"github.com/ringmaster-project/ringmaster/examples/natscluster/operator"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

var runs = flag.Int("runs", 20, "how often each change is made in each mode")

// changes are the measured changes of the cluster. Each run has a different number.
var changes = []struct {
	name string
	do   func(w *fixture, run int)
}{
	{"rolling restart of all servers", func(w *fixture, run int) { w.editAll(setLimit(strconv.Itoa(1_000_000 + run))) }},
	{"replacement of one server in every region", func(w *fixture, _ int) {
		for _, r := range w.regions {
			members, err := r.agent.Members(w.t.Context())
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(members).To(HaveLen(1))
			w.edit(r, func(spec *operator.Spec) {
				spec.Replace = map[string]string{members[0].Name: fmt.Sprintf("%s-%d", r.name, time.Now().UnixNano())}
			})
		}
	}},
	{"upgrade to an incompatible protocol", func(w *fixture, run int) {
		w.editAll(func(spec *operator.Spec) { spec.Protocol = strconv.Itoa(run) })
	}},
	{"restart in one region only", func(w *fixture, run int) {
		w.edit(w.regions[run%len(w.regions)], setLimit(strconv.Itoa(2_000_000+run)))
	}},
}

// cost is the measured cost of one change.
type cost struct {
	leaders, meta, failed, slow, down, seconds float64
}

// BenchmarkCoordinationNATS makes the same changes in both modes, alternately on the same cluster, while a client publishes and reads: in
// local mode each operator acts for itself under the lock, and moves the leaders first; in global mode one operator acts for all.
func BenchmarkCoordinationNATS(b *testing.B) {
	for b.Loop() {
		w := start(b, coordination.Local)
		costs, begun := map[string][]cost{}, time.Now()
		for run := range *runs {
			for i, mode := range []coordination.Mode{coordination.Local, coordination.Global} {
				w.editAll(func(spec *operator.Spec) { spec.Mode = mode })
				w.Eventually(func() (n int, err error) {
					view, err := w.readView()
					if err == nil {
						n = len(view.Instances)
					}
					return n, err
				}).Should(Equal(i * len(w.regions)))
				for _, c := range changes {
					key := c.name + string(mode)
					costs[key] = append(costs[key], w.measure(func() { c.do(w, 2*run+i+2) }))
				}
			}
			printf("finished run %d of %d after %s\n", run+1, *runs, time.Since(begun).Round(time.Second))
			if (run+1)%5 == 0 || run+1 == *runs { // for runs that are stopped early
				for _, c := range changes {
					report(c.name, costs[c.name+string(coordination.Local)], costs[c.name+string(coordination.Global)])
				}
			}
		}
	}
}

// measure makes a change, and waits until it is done and every stream has a leader.
func (w *fixture) measure(do func()) cost {
	w.t.Helper()
	c, begun := w.startClient(), time.Now()
	leaders, meta := w.raftTerms()
	do()
	w.awaitSettled()
	found := cost{seconds: time.Since(begun).Seconds()}
	leadersAfter, metaAfter := w.raftTerms()
	c.check()
	found.leaders, found.meta = float64(leadersAfter-leaders), float64(metaAfter-meta)
	found.failed, found.slow = float64(c.failed), float64(c.slow)
	found.down = w.downtime(begun).Seconds()
	return found
}

// downtime returns the total time that servers were not up to date.
func (w *fixture) downtime(since time.Time) (sum time.Duration) {
	ended := map[string]time.Time{}
	for _, event := range w.events(since) {
		switch beganAt, ok := ended[event.Member]; {
		case event.Operation == agent.Restart:
			ended[event.Member] = event.Time
		case event.Operation == agent.Ready && ok:
			sum += event.Time.Sub(beganAt)
			delete(ended, event.Member)
		}
	}
	return sum
}

// figures are the printed results.
var figures = []struct {
	name string
	get  func(cost) float64
}{
	{"leader changes of the streams", func(c cost) float64 { return c.leaders }},
	{"leader changes of the cluster", func(c cost) float64 { return c.meta }},
	{"failed requests", func(c cost) float64 { return c.failed }},
	{"slow requests (> 100 ms, none that failed)", func(c cost) float64 { return c.slow }},
	{"seconds that servers were down or behind, in total", func(c cost) float64 { return c.down }},
	{"seconds until all is done", func(c cost) float64 { return c.seconds }},
}

// report prints the costs of both modes side by side.
func report(name string, local, global []cost) {
	printf("\n%s, %d times in each mode, %d streams, with a quiet window of %s\n", name, len(local), streams, quiet)
	printf("%-51s %12s %6s  %12s %6s\n", "", "local: mean", "worst", "global: mean", "worst")
	for _, figure := range figures {
		lm, lw := summary(local, figure.get)
		gm, gw := summary(global, figure.get)
		printf("%-51s %12.2f %6.1f  %12.2f %6.1f\n", figure.name, lm, lw, gm, gw)
	}
}

// printf prints immediately: the log of a benchmark is kept until its end, and is truncated.
func printf(format string, args ...any) { fmt.Fprintf(os.Stderr, format, args...) }

func summary(costs []cost, get func(cost) float64) (mean, worst float64) {
	var values []float64
	for _, c := range costs {
		values = append(values, get(c))
		mean += get(c) / float64(len(costs))
	}
	return mean, slices.Max(values)
}
