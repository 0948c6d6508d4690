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

// change is something that people do to a system, and that disturbs it.
type change struct {
	name string
	do   func(w *world, run int)
	// worst is how often the leader may change in global mode, or -1.
	worst int
}

var changes = []change{
	{"rolling restart of all members", func(w *world, run int) { w.editAll(setArg(strconv.Itoa(30_000 + run))) }, 1},
	{"replacement of one member in every region", func(w *world, _ int) {
		for _, r := range w.regions {
			r.replace()
		}
	}, -1},
	{"restart in one region only", func(w *world, run int) { w.regions[run%len(w.regions)].edit(setArg(strconv.Itoa(50_000 + run))) }, -1},
}

// quiet is shorter here than it is by default, so that it does not hide everything else.
const quiet = time.Second

// cost is what a change cost once.
type cost struct {
	leaderChanges, failed, slow float64
	wall                        time.Duration
	// barrier is how long it took until one of the operators could act for all. In local mode there is none.
	barrier time.Duration
	// first is how long it took until the first region was told to do something to its members, and waiting is how long
	// all regions waited for that, together: for the barrier, the lock, or their turn.
	first, waiting time.Duration
}

// BenchmarkCoordination makes the same changes in both modes, one after the other on the same system, while a client
// writes: each operator for itself, with the lock and with the leader moved away first, and one for all.
func BenchmarkCoordination(b *testing.B) {
	for b.Loop() {
		w := begin(b, options{mode: etcdclusterv1alpha1.SynchronizationLocal, quiet: quiet, shipped: true})
		costs, begun := map[string][]cost{}, time.Now()
		for run := range *runs {
			for i, mode := range []etcdclusterv1alpha1.SynchronizationMode{etcdclusterv1alpha1.SynchronizationLocal, etcdclusterv1alpha1.SynchronizationGlobal} {
				w.editAll(func(spec *etcdclusterv1alpha1.EtcdClusterSpec) { spec.AutomationOptions.SynchronizationMode = mode })
				w.settled()
				for _, c := range changes {
					found := w.measure(func() { c.do(w, 2*run+i) })
					costs[c.name+string(mode)] = append(costs[c.name+string(mode)], found)
				}
			}
			say("run %d of %d is done, after %s\n", run+1, *runs, time.Since(begun).Round(time.Second))
		}
		for _, c := range changes {
			report(b, c, costs[c.name+"local"], costs[c.name+"global"])
		}
	}
}

// measure makes a change and waits until it is done.
func (w *world) measure(do func()) cost {
	w.t.Helper()
	writer := w.write()
	term := w.term()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	given := map[*region]int{}
	for _, r := range w.regions {
		given[r] = len(r.orders())
	}
	begin := time.Now()
	begun := w.intentSeen(ctx)
	do()
	w.settled()
	found := cost{wall: time.Since(begin), leaderChanges: float64(w.term() - term)}
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

// intentSeen tells when the first intent is written.
func (w *world) intentSeen(ctx context.Context) <-chan time.Time {
	seen := make(chan time.Time, 1)
	events := w.connect().Watch(ctx, coordination.DefaultRoot+"/"+clusterName+"/intent", clientv3.WithFilterDelete())
	go func() {
		if _, open := <-events; open {
			seen <- time.Now()
		}
	}()
	return seen
}

// figures are what is printed of costs.
var figures = []struct {
	name string
	get  func(cost) float64
	// global is one that there is only in global mode.
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

// report prints what both modes cost, side by side.
func report(b *testing.B, c change, local, global []cost) {
	b.Helper()
	say("\n%s, %d times in each mode, with a quiet window of %s (%s by default)\n", c.name, len(local), quiet, etcdclusterv1alpha1.DefaultQuietWindow)
	say("%-49s %12s %6s  %12s %6s\n", "", "local: mean", "worst", "global: mean", "worst")
	for _, of := range figures {
		lm, lw := summary(local, of.get)
		gm, gw := summary(global, of.get)
		if of.global {
			say("%-49s %12s %6s  %12.2f %6.2f\n", of.name, "-", "-", gm, gw)
			continue
		}
		say("%-49s %12.2f %6.2f  %12.2f %6.2f\n", of.name, lm, lw, gm, gw)
	}
	if _, worst := summary(global, figures[0].get); c.worst >= 0 && worst > float64(c.worst) {
		b.Errorf("%s: the leader changed %g times in global mode, which is more than %d", c.name, worst, c.worst)
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
