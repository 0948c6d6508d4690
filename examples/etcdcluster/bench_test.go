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

// cost is what a change cost once.
type cost struct {
	leaderChanges, failed, slow float64
	wall, barrier               time.Duration
}

// BenchmarkCoordination makes the same changes in both modes, one after the other on the same system, while a client
// writes: each operator for itself, with the lock and with the leader moved away first, and one for all.
func BenchmarkCoordination(b *testing.B) {
	for b.Loop() {
		w := begin(b, options{mode: etcdclusterv1alpha1.SynchronizationLocal, quiet: time.Second, shipped: true})
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

// report prints what both modes cost, side by side.
func report(b *testing.B, c change, local, global []cost) {
	b.Helper()
	say("\n%s, %d times in each mode\n%-40s %12s %6s  %12s %6s\n", c.name, len(local), "", "local: mean", "worst", "global: mean", "worst")
	for _, of := range []struct {
		name string
		get  func(cost) float64
	}{
		{"leader changes", func(c cost) float64 { return c.leaderChanges }},
		{"failed writes", func(c cost) float64 { return c.failed }},
		{"slow writes (> 100 ms)", func(c cost) float64 { return c.slow }},
		{"seconds until all is done", func(c cost) float64 { return c.wall.Seconds() }},
		{"seconds of it waiting at the barrier", func(c cost) float64 { return c.barrier.Seconds() }},
	} {
		lm, lw := summary(local, of.get)
		gm, gw := summary(global, of.get)
		say("%-40s %12.2f %6.2f  %12.2f %6.2f\n", of.name, lm, lw, gm, gw)
		if of.name == "leader changes" && c.worst >= 0 && gw > float64(c.worst) {
			b.Errorf("%s: the leader changed %g times in global mode, which is more than %d", c.name, gw, c.worst)
		}
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
