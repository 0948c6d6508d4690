package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

var runs = flag.Int("runs", 20, "how often each change is made in each mode")

// change is a change of the system that disturbs its members.
type change struct {
	name string
	do   func(w *fixture, run int)
	// worst is the highest accepted number of leader changes in global mode, or -1.
	worst int
}

var changes = []change{
	{"rolling restart of all members", func(w *fixture, run int) { w.editAll(setArg(strconv.Itoa(30_000 + run))) }, 1},
	{"replacement of one member in every region", func(w *fixture, _ int) {
		for _, r := range w.regions {
			r.replaceMembers()
		}
	}, -1},
	{"restart in one region only", func(w *fixture, run int) { w.regions[run%len(w.regions)].edit(setArg(strconv.Itoa(50_000 + run))) }, -1},
}

// quiet is shorter than the default, so that it does not dominate the results.
const quiet = time.Second

// cost is the measured cost of one change.
type cost struct {
	leaderChanges, failed, slow float64
	wall                        time.Duration
	// barrier is the time until one operator could begin the action. It is 0 in local mode.
	barrier time.Duration
	// first is the time until the first region received an order, and waiting is the total time that all regions
	// waited for that: for the barrier, the lock, or their turn.
	first, waiting time.Duration
}

// BenchmarkCoordination makes the same changes in both modes, alternately on the same system, while a client
// writes: in local mode each operator acts for itself under the lock, and moves the leader first; in global mode
// one operator acts for all.
func BenchmarkCoordination(b *testing.B) {
	for b.Loop() {
		w := start(b, options{mode: etcdclusterv1alpha1.SynchronizationLocal, quiet: quiet, shipped: true})
		costs, begun := map[string][]cost{}, time.Now()
		for run := range *runs {
			for i, mode := range []etcdclusterv1alpha1.SynchronizationMode{etcdclusterv1alpha1.SynchronizationLocal, etcdclusterv1alpha1.SynchronizationGlobal} {
				w.editAll(func(spec *etcdclusterv1alpha1.EtcdClusterSpec) { spec.AutomationOptions.SynchronizationMode = mode })
				w.awaitSettled()
				for _, c := range changes {
					found := w.measure(func() { c.do(w, 2*run+i) })
					costs[c.name+string(mode)] = append(costs[c.name+string(mode)], found)
				}
			}
			logf("run %d of %d is done, after %s\n", run+1, *runs, time.Since(begun).Round(time.Second))
		}
		for _, c := range changes {
			report(b, c, costs[c.name+"local"], costs[c.name+"global"])
		}
	}
}

// measure makes a change and waits until it is done.
func (w *fixture) measure(do func()) cost {
	w.t.Helper()
	writer := w.startWriter()
	term := w.raftTerm()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	given := map[*region]int{}
	for _, r := range w.regions {
		given[r] = len(r.orders())
	}
	begin := time.Now()
	begun := w.intentSeen(ctx)
	do()
	w.awaitSettled()
	found := cost{wall: time.Since(begin), leaderChanges: float64(w.raftTerm() - term)}
	writer.check()
	found.failed, found.slow = float64(writer.failed), float64(writer.slow)
	select {
	case at := <-begun:
		found.barrier = at.Sub(begin)
	default:
	}
	for _, r := range w.regions {
		if orders := r.orders()[given[r]:]; len(orders) > 0 {
			waited := orders[0].TS.Sub(begin)
			found.waiting += waited
			if found.first == 0 || waited < found.first {
				found.first = waited
			}
		}
	}
	return found
}

// intentSeen sends the time at which the first intent is written.
func (w *fixture) intentSeen(ctx context.Context) <-chan time.Time {
	seen := make(chan time.Time, 1)
	events := w.newClient().Watch(ctx, coordination.DefaultRoot+"/"+clusterName+"/intent", clientv3.WithFilterDelete())
	go func() {
		if _, open := <-events; open {
			seen <- time.Now()
		}
	}()
	return seen
}

// figures are the printed results.
var figures = []struct {
	name string
	get  func(cost) float64
	// global is set for a figure that exists only in global mode.
	global bool
}{
	{name: "leader changes", get: func(c cost) float64 { return c.leaderChanges }},
	{name: "failed writes", get: func(c cost) float64 { return c.failed }},
	{name: "slow writes (> 100 ms, none that failed)", get: func(c cost) float64 { return c.slow }},
	{name: "seconds until all is done", get: func(c cost) float64 { return c.wall.Seconds() }},
	{name: "seconds from the first edit to the open barrier", get: func(c cost) float64 { return c.barrier.Seconds() }, global: true},
	{name: "seconds from the first edit to the first order", get: func(c cost) float64 { return c.first.Seconds() }},
	{name: "seconds that regions waited for theirs, in total", get: func(c cost) float64 { return c.waiting.Seconds() }},
}

// report prints the costs of both modes side by side.
func report(b *testing.B, c change, local, global []cost) {
	b.Helper()
	logf("\n%s, %d times in each mode, with a quiet window of %s (%s by default)\n", c.name, len(local), quiet, etcdclusterv1alpha1.DefaultQuietWindow)
	logf("%-49s %12s %6s  %12s %6s\n", "", "local: mean", "worst", "global: mean", "worst")
	for _, figure := range figures {
		lm, lw := summary(local, figure.get)
		gm, gw := summary(global, figure.get)
		if figure.global {
			logf("%-49s %12s %6s  %12.2f %6.2f\n", figure.name, "-", "-", gm, gw)
			continue
		}
		logf("%-49s %12.2f %6.2f  %12.2f %6.2f\n", figure.name, lm, lw, gm, gw)
	}
	if _, worst := summary(global, figures[0].get); c.worst >= 0 && worst > float64(c.worst) {
		b.Errorf("%s: the leader changed %g times in global mode, which is more than %d", c.name, worst, c.worst)
	}
}

// logf prints immediately: the log of a benchmark is kept until its end, and is truncated.
func logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format, args...) }

func summary(costs []cost, get func(cost) float64) (mean, worst float64) {
	var values []float64
	for _, c := range costs {
		values = append(values, get(c))
		mean += get(c) / float64(len(costs))
	}
	return mean, slices.Max(values)
}
