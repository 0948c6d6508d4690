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

// changes are what people do to the cluster, and what disturbs it. Each run has a number of its own.
var changes = []struct {
	name string
	do   func(w *world, run int)
}{
	{"rolling restart of all servers", func(w *world, run int) { w.editAll(limit(strconv.Itoa(1_000_000 + run))) }},
	{"replacement of one server in every region", func(w *world, _ int) {
		for _, r := range w.regions {
			members, err := r.agent.Members(w.t.Context())
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(members).To(HaveLen(1))
			w.edit(r, func(spec *operator.Spec) {
				spec.Replace = map[string]string{members[0].Name: fmt.Sprintf("%s-%d", r.name, time.Now().UnixNano())}
			})
		}
	}},
	{"upgrade to a protocol that the others do not speak", func(w *world, run int) {
		w.editAll(func(spec *operator.Spec) { spec.Protocol = strconv.Itoa(run) })
	}},
	{"restart in one region only", func(w *world, run int) { w.edit(w.regions[run%len(w.regions)], limit(strconv.Itoa(2_000_000+run))) }},
}

// cost is what a change cost once.
type cost struct {
	leaders, meta, failed, slow, down, seconds float64
}

// BenchmarkCoordinationNATS makes the same changes in both modes, in turns on the same cluster, while a client publishes and reads
// back: each operator for itself, with the lock and with the leaders moved away first, and one for all.
func BenchmarkCoordinationNATS(b *testing.B) {
	for b.Loop() {
		w := begin(b, coordination.Local)
		costs, begun := map[string][]cost{}, time.Now()
		for run := range *runs {
			for i, mode := range []coordination.Mode{coordination.Local, coordination.Global} {
				w.editAll(func(spec *operator.Spec) { spec.Mode = mode })
				w.Eventually(func() (n int, err error) {
					view, err := w.look()
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
			say("run %d of %d is done, after %s\n", run+1, *runs, time.Since(begun).Round(time.Second))
			if (run+1)%5 == 0 || run+1 == *runs { // one that is ended early has shown something
				for _, c := range changes {
					report(c.name, costs[c.name+string(coordination.Local)], costs[c.name+string(coordination.Global)])
				}
			}
		}
	}
}

// measure makes a change and waits until it is done, and every stream has a leader.
func (w *world) measure(do func()) cost {
	w.t.Helper()
	c, begun := w.publish(), time.Now()
	leaders, meta := w.terms()
	do()
	w.settled()
	found := cost{seconds: time.Since(begun).Seconds()}
	leadersAfter, metaAfter := w.terms()
	c.check()
	found.leaders, found.meta = float64(leadersAfter-leaders), float64(metaAfter-meta)
	found.failed, found.slow = float64(c.failed), float64(c.slow)
	found.down = w.down(begun).Seconds()
	return found
}

// down is for how long, added up, servers were not up to date.
func (w *world) down(since time.Time) (sum time.Duration) {
	ended := map[string]time.Time{}
	for _, event := range w.events(since) {
		switch begun, is := ended[event.Member]; {
		case event.What == agent.Restart:
			ended[event.Member] = event.Time
		case event.What == agent.Ready && is:
			sum += event.Time.Sub(begun)
			delete(ended, event.Member)
		}
	}
	return sum
}

// figures are what is printed of costs.
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

// report prints what both modes cost, side by side.
func report(name string, local, global []cost) {
	say("\n%s, %d times in each mode, %d streams, with a quiet window of %s\n", name, len(local), streams, quiet)
	say("%-51s %12s %6s  %12s %6s\n", "", "local: mean", "worst", "global: mean", "worst")
	for _, of := range figures {
		lm, lw := summary(local, of.get)
		gm, gw := summary(global, of.get)
		say("%-51s %12.2f %6.1f  %12.2f %6.1f\n", of.name, lm, lw, gm, gw)
	}
}

// say prints at once: a benchmark's own log is kept until its end, and is cut.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format, args...) }

func summary(of []cost, get func(cost) float64) (mean, worst float64) {
	var values []float64
	for _, c := range of {
		values = append(values, get(c))
		mean += get(c) / float64(len(of))
	}
	return mean, slices.Max(values)
}
