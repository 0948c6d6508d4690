package oracle_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/seed"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
	"github.com/ringmaster-project/ringmaster/test/robustness/oracle"
)

// world generates random histories without violations.
type generator struct {
	*historyBuilder
	*rand.Rand
	// alive are the running processes, hung the paused ones, and silent those whose Lease has not been taken
	// over yet.
	alive, hung, silent []string
	// last is the last process of each shard.
	last      map[string]string
	processes int
	// busy has the running reconcile of each object.
	busy  map[history.Object]work
	mains []history.Object
}

// names are the names of the shards.
var names = []string{"a", "b", "c", "d"}

// rings has the ring of each set of members, because calculating one for each step takes minutes.
var rings = sync.OnceValue(func() map[string]*ring.Ring {
	all := map[string]*ring.Ring{}
	for set := range 1 << len(names) {
		var members []string
		for i, name := range names {
			if set&(1<<i) != 0 {
				members = append(members, name)
			}
		}
		all[fmt.Sprint(members)] = ring.New(members)
	}
	return all
})

func ringOf(members []string) *ring.Ring {
	return rings()[fmt.Sprint(slices.Sorted(slices.Values(members)))]
}

type work struct {
	process string
	number  int64
	version uint64
}

func newGenerator(seed uint64) *generator {
	w := &generator{historyBuilder: newHistoryBuilder(), Rand: rand.New(rand.NewPCG(seed, 0)), busy: map[history.Object]work{}, last: map[string]string{}}
	w.joins()
	w.joins()
	return w
}

func choose[T any](w *generator, from []T) (chosen T, found bool) {
	if len(from) == 0 {
		return chosen, false
	}
	return from[w.IntN(len(from))], true
}

func without[T comparable](all []T, gone T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return one == gone })
}

// step adds a random allowed event.
func (w *generator) step() {
	w.wait(time.Duration(w.IntN(200)) * time.Millisecond)
	switch n := w.IntN(100); {
	case n < 2:
		w.joins()
	case n < 4:
		w.leaves()
	case n < 6:
		w.killProcess()
	case n < 8:
		w.pauseProcess()
	case n < 12:
		w.resumeProcess()
	case n < 16:
		w.declareDead()
	case n < 26:
		w.createObject()
	case n < 28:
		w.deleteObject()
	case n < 50:
		w.beginReconcile()
	case n < 70:
		w.endReconcile()
	default:
		if main, found := choose(w, w.mains); found {
			w.moveOneStep(main)
		}
	}
}

func (w *generator) joins() {
	var absent []string
	for _, name := range names {
		// One that woke up without its Lease ends before the next of its name begins.
		if !slices.Contains(w.members, name) && !slices.Contains(w.hung, w.last[name]) {
			absent = append(absent, name)
		}
	}
	shard, found := choose(w, absent)
	if !found {
		return
	}
	w.processes++
	process := fmt.Sprintf("%s/%d", shard, w.processes)
	w.last[shard] = process
	w.join(process)
	w.alive = append(w.alive, process)
}

// finish ends the reconciles of a process.
func (w *generator) finish(process string) {
	for _, object := range w.reconciled() {
		if doing := w.busy[object]; doing.process == process {
			w.end(process, object, doing.number, doing.version)
			delete(w.busy, object)
		}
	}
}

// reconciled returns the objects that are being reconciled, in an order that depends only on the seed.
func (w *generator) reconciled() []history.Object {
	return slices.SortedFunc(maps.Keys(w.busy), func(a, b history.Object) int { return cmp.Compare(a.Name, b.Name) })
}

// leaves hands all objects of a shard over and ends its process.
func (w *generator) leaves() {
	process, found := choose(w, w.alive)
	if !found || len(w.alive) == 1 {
		return
	}
	w.alive = without(w.alive, process)
	w.finish(process)
	w.announce(process)
	others := ringOf(w.members)
	for _, main := range w.mains {
		if w.objects[main].Shard == shardOf(process) {
			next := others.Owner(key(main))
			if w.objects[childOf(main)].Shard == shardOf(process) {
				w.handOver(childOf(main), next)
			}
			w.handOver(main, next)
		}
	}
	w.leave(process)
}

func (w *generator) killProcess() {
	process, found := choose(w, w.alive)
	if !found || len(w.alive) == 1 {
		return
	}
	w.alive = without(w.alive, process)
	w.addProcessEvent(history.Gone, process)
	for object, doing := range w.busy {
		if doing.process == process {
			delete(w.busy, object)
		}
	}
	w.silent = append(w.silent, process)
}

func (w *generator) pauseProcess() {
	process, found := choose(w, w.alive)
	if !found || len(w.alive) == 1 {
		return
	}
	w.alive = without(w.alive, process)
	w.addProcessEvent(history.Paused, process)
	w.hung = append(w.hung, process)
	w.silent = append(w.silent, process)
}

// resumeProcess resumes a process, which continues or has lost its Lease.
func (w *generator) resumeProcess() {
	process, found := choose(w, w.hung)
	if !found {
		return
	}
	w.hung = without(w.hung, process)
	w.addProcessEvent(history.Resumed, process)
	if slices.Contains(w.silent, process) {
		w.silent = without(w.silent, process)
		w.alive = append(w.alive, process)
		return
	}
	w.addProcessEvent(history.Lost, process)
	w.addProcessEvent(history.Gone, process)
}

// declareDead declares a silent shard dead. Its running reconciles end when it is resumed.
func (w *generator) declareDead() {
	process, found := choose(w, w.silent)
	if !found {
		return
	}
	w.silent = without(w.silent, process)
	w.takeOver(process)
	for object, doing := range w.busy {
		if doing.process == process {
			delete(w.busy, object)
		}
	}
}

func (w *generator) createObject() {
	main := history.Object{Kind: mainKind.Kind, Namespace: "default", Name: fmt.Sprint("object-", w.IntN(100))}
	if slices.Contains(w.mains, main) {
		return
	}
	w.mains = append(w.mains, main)
	shard := ""
	if w.IntN(10) > 0 { // the webhook may be down
		shard = ringOf(w.members).Owner(key(main))
	}
	w.createWithChild(main, shard)
}

func (w *generator) deleteObject() {
	main, found := choose(w, w.mains)
	if _, busy := w.busy[main]; !found || busy {
		return
	}
	w.mains = without(w.mains, main)
	w.remove(childOf(main))
	w.remove(main)
}

func (w *generator) beginReconcile() {
	main, found := choose(w, w.mains)
	if _, busy := w.busy[main]; !found || busy {
		return
	}
	process := w.last[w.objects[main].Shard]
	if slices.Contains(w.alive, process) {
		version := w.objects[main].Version
		w.busy[main] = work{process, w.start(process, main), version}
	}
}

func (w *generator) endReconcile() {
	for _, object := range w.reconciled() {
		if doing := w.busy[object]; slices.Contains(w.alive, doing.process) {
			w.end(doing.process, object, doing.number, doing.version)
			delete(w.busy, object)
			return
		}
	}
}

func key(main history.Object) string { return assignment.Key(mainKind, main.Namespace, main.Name) }

// moveOneStep does the next step of moving an object to its owner, and reports whether there was one.
func (w *generator) moveOneStep(main history.Object) bool {
	members := ringOf(w.members)
	object, child := w.objects[main], w.objects[childOf(main)]
	decision := assignment.DecideMain(assignment.Object{Shard: object.Shard, Draining: object.Draining, Destination: object.Destination}, members.Owner(key(main)), members)
	_, busy := w.busy[main]
	switch {
	case decision.Action == assignment.Assign:
		w.give(main, decision.Shard)
	case decision.Action == assignment.Drain:
		w.drain(main, decision.Shard)
	case decision.Action == assignment.Undrain:
		w.give(main, object.Shard)
	case object.Draining && !busy && slices.Contains(w.alive, w.last[object.Shard]):
		w.handOver(main, decision.Shard)
	default:
		decision = assignment.DecideControlled(assignment.Object{Shard: child.Shard}, members.Owner(key(main)), members, func() string { return object.Shard })
		if decision.Action == assignment.Keep {
			return busy || object.Draining
		}
		w.give(child.Object, decision.Shard)
	}
	return true
}

// rest completes everything that is in progress, and returns the time.
func (w *generator) rest() time.Time {
	for len(w.hung) > 0 {
		w.resumeProcess()
	}
	for len(w.silent) > 0 {
		w.declareDead()
	}
	for len(w.busy) > 0 {
		w.endReconcile()
	}
	for {
		again := false
		for _, main := range w.mains {
			again = w.moveOneStep(main) || again
		}
		if !again {
			return w.now
		}
	}
}

// check checks a history without limits on durations, because they are random.
func check(w *generator, quiet time.Time) oracle.Report {
	o := options()
	o.Unowned, o.Apart, o.Settle = time.Hour, time.Hour, 100*time.Millisecond
	o.Children = oneChild
	o.Quiet = oracle.Window{From: quiet, To: quiet.Add(time.Hour)}
	return oracle.Check(w.sorted(), o)
}

const steps = 400

// seeds runs a check with several seeds, starting with that of the test run.
func seeds(t *testing.T, n int, test func(t *testing.T, seed uint64)) {
	first := seed.ForRun(t)
	for i := range n {
		seed := first + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { test(t, seed) })
	}
}

// TestRandomHistoriesHaveNoViolations of any rule.
func TestRandomHistoriesHaveNoViolations(t *testing.T) {
	seeds(t, 20, func(t *testing.T, seed uint64) {
		w := newGenerator(seed)
		for range steps {
			w.step()
		}
		quiet := w.rest()
		renewed := w.members[0]
		w.lease(renewed, renewed, w.last[renewed])
		report := check(w, quiet)
		for _, v := range report.Violations {
			t.Error(v)
		}
		t.Log(report.Figures)
		if report.Figures.Reconciles == 0 || len(report.Figures.Changes) < 3 {
			t.Errorf("the history is too short: %s", report.Figures)
		}
	})
}

// TestInjectedViolationIsFound among many allowed events.
func TestInjectedViolationIsFound(t *testing.T) {
	for name, inject := range map[string]func(w *generator, main history.Object, shard, other string) finding{
		"overlap": func(w *generator, main history.Object, shard, _ string) finding {
			version := w.objects[main].Version
			number := w.start(w.last[shard], main)
			again := w.start(w.last[shard], main)
			w.end(w.last[shard], main, number, version)
			w.end(w.last[shard], main, again, version)
			return finding{oracle.Overlap, main.String(), w.last[shard] + " " + w.last[shard]}
		},
		"foreign": func(w *generator, main history.Object, _, other string) finding {
			w.reconcile(w.last[other], main)
			return finding{oracle.Foreign, main.String(), w.last[other]}
		},
		"refused": func(w *generator, main history.Object, _, _ string) finding {
			w.ask(history.Request{Object: main, Error: "no"})
			return finding{oracle.Refused, main.String(), ""}
		},
		"delayed": func(w *generator, main history.Object, _, _ string) finding {
			w.ask(history.Request{Object: main, Took: 2 * time.Second})
			return finding{oracle.Delayed, main.String(), ""}
		},
		"child first": func(w *generator, main history.Object, shard, other string) finding {
			w.give(childOf(main), other)
			w.handOver(childOf(main), shard)
			return finding{oracle.LeftOwner, childOf(main).String(), shard}
		},
	} {
		t.Run(name, func(t *testing.T) {
			seeds(t, 5, func(t *testing.T, seed uint64) {
				w := newGenerator(seed)
				for range steps / 2 {
					w.step()
				}
				w.rest()
				for len(w.alive) < 2 || len(w.mains) == 0 {
					w.joins()
					w.createObject()
				}
				w.rest()
				w.wait(time.Second) // so that all processes know the members
				main := w.mains[0]
				shard := w.objects[main].Shard
				other, _ := choose(w, without(w.members, shard))
				want := inject(w, main, shard, other)
				for range steps / 2 {
					w.step()
				}
				report := check(w, w.rest())
				if diff := gocmp.Diff([]finding{want}, findings(report)); diff != "" {
					t.Errorf("(-want +got)\n%s\n%v", diff, report.Violations)
				}
			})
		})
	}
}
