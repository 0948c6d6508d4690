package oracle_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
	"github.com/ringmaster-project/ringmaster/test/robustness/oracle"
)

// finding is what a test expects of a violation.
type finding struct {
	Rule      oracle.Rule
	Object    string
	Processes string
}

func findings(report oracle.Report) []finding {
	var all []finding
	for _, v := range report.Violations {
		all = append(all, finding{v.Rule, v.Object.String(), strings.Join(v.Processes, " ")})
	}
	slices.SortFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Processes, b.Processes))
	})
	return all
}

const (
	pa, pb, pc = "a/1", "b/1", "c/1"
	second     = time.Second
)

// Objects named after their owners: the owner of ab is a, or b without a.
var (
	ab, ba, cab = named("a", "b"), named("b", "a"), named("c", "a", "b")
	childAB     = childOf(ab)
)

// idleStory has two shards, and an object with a child on the first one.
func idleStory() *historyBuilder {
	s := newHistoryBuilder()
	s.join(pa)
	s.join(pb)
	s.createWithChild(ab, "a")
	s.wait(second)
	s.reconcile(pa, ab)
	s.wait(second)
	return s
}

// TestAllowedHistories have no violations.
func TestAllowedHistories(t *testing.T) {
	for name, tell := range map[string]func(*historyBuilder, *oracle.Options){
		"a shard joins and is assigned an object": func(s *historyBuilder, _ *oracle.Options) {
			s.createWithChild(cab, "a")
			number := s.start(pa, cab)
			s.join(pc)
			s.drain(cab, "c")
			s.wait(second)
			s.end(pa, cab, number, s.objects[cab].Version)
			s.handOver(cab, "c")
			s.reconcile(pc, cab)
			s.wait(second)
			s.give(childOf(cab), "c")
		},
		"a shard hands a family over": func(s *historyBuilder, _ *oracle.Options) {
			s.reconcile(pa, ab)
			s.announce(pa)
			s.wait(6 * second)
			s.reconcile(pa, ab)
			s.handOver(childAB, "b")
			s.handOver(ab, "b")
			s.reconcile(pb, ab)
			s.wait(6 * second)
			s.leave(pa)
		},
		"a shard that does not say so hands a family over": func(s *historyBuilder, _ *oracle.Options) {
			s.handOver(childAB, "b")
			s.handOver(ab, "b")
			s.leave(pa)
		},
		"a shard is killed in the middle of a handover and restarted": func(s *historyBuilder, _ *oracle.Options) {
			s.announce(pa)
			s.handOver(childAB, "b")
			s.addProcessEvent(history.Gone, pa)
			s.wait(second)
			s.join("a/2")
			s.reconcile("a/2", ab)
			s.give(childAB, "a")
		},
		"a shard is killed in a reconcile": func(s *historyBuilder, _ *oracle.Options) {
			s.start(pa, ab)
			s.addProcessEvent(history.Gone, pa)
			s.wait(10 * second)
			s.takeOver(pa)
			s.give(childAB, "b")
			s.give(ab, "b")
			s.reconcile(pb, ab)
		},
		"a shard hangs in a reconcile and wakes up": func(s *historyBuilder, _ *oracle.Options) {
			number, version := s.start(pa, ab), s.objects[ab].Version
			s.addProcessEvent(history.Paused, pa)
			s.wait(10 * second)
			s.takeOver(pa)
			s.give(childAB, "b")
			s.give(ab, "b")
			other := s.start(pb, ab)
			s.addProcessEvent(history.Resumed, pa)
			s.end(pa, ab, number, version)
			s.addProcessEvent(history.Lost, pa)
			s.end(pb, ab, other, s.objects[ab].Version)
		},
		"a child is reassigned while its shard comes back": func(s *historyBuilder, _ *oracle.Options) {
			s.addProcessEvent(history.Gone, pa)
			s.wait(10 * second)
			s.takeOver(pa)
			s.join("a/2")
			s.give(childAB, "b")
			s.give(childAB, "a")
			s.reconcile("a/2", ab)
		},
		"a shard hangs for less than its lease": func(s *historyBuilder, _ *oracle.Options) {
			s.addProcessEvent(history.Paused, pa)
			s.wait(2 * second)
			s.addProcessEvent(history.Resumed, pa)
			s.reconcile(pa, ab)
		},
		"a restarted process has the name of the one before": func(s *historyBuilder, _ *oracle.Options) {
			s.start(pa, ab)
			s.addProcessEvent(history.Gone, pa)
			s.wait(3 * second)
			s.lease("a", "", pa)
			s.join("a/2")
			s.reconcile("a/2", ab)
		},
		"a reconcile of a deleted object": func(s *historyBuilder, _ *oracle.Options) {
			s.remove(childAB)
			s.remove(ab)
			s.wait(second)
			s.end(pa, ab, s.start(pa, ab), 0)
		},
		"an object is deleted and created again": func(s *historyBuilder, _ *oracle.Options) {
			s.remove(childAB)
			s.remove(ab)
			s.createWithChild(ab, "a")
			s.reconcile(pa, ab)
		},
		"the record sees a write later than the shard": func(s *historyBuilder, _ *oracle.Options) {
			number := s.start(pb, ba)
			s.wait(500 * time.Millisecond)
			version := s.write(ba, func(w *history.Write) { w.Shard = "b" })
			s.end(pb, ba, number, version)
		},
		"nobody could have the objects": func(s *historyBuilder, _ *oracle.Options) {
			s.lease("a", "", pa)
			s.addProcessEvent(history.Gone, pa)
			s.lease("b", "", pb)
			s.addProcessEvent(history.Gone, pb)
			s.wait(time.Hour)
			s.join("a/2")
			s.join("b/2")
		},
		"a label that was changed by hand": func(s *historyBuilder, o *oracle.Options) {
			o.ByHand = map[history.Object]bool{ab: true}
			number, version := s.start(pa, ab), s.objects[ab].Version
			s.write(ab, func(w *history.Write) { w.Shard, w.Manager = "b", "vandal" })
			other := s.start(pb, ab)
			s.wait(second)
			s.end(pa, ab, number, version)
			s.end(pa, ab, s.start(pa, ab), version)
			s.end(pb, ab, other, s.objects[ab].Version)
			s.give(ab, "a")
		},
		"rest": func(s *historyBuilder, o *oracle.Options) {
			o.Quiet = oracle.Window{From: s.now.Add(second), To: s.now.Add(time.Hour)}
			s.wait(10 * second)
			s.lease("a", "a", pa)
		},
		"rest of which every write is recorded": func(s *historyBuilder, o *oracle.Options) {
			o.Quiet, o.Counted.After = oracle.Window{From: s.now, To: s.now.Add(time.Hour)}, s.version
			s.lease("a", "a", pa)
			s.write(history.Object{Kind: "Lease", Name: "sharder"}, func(w *history.Write) { w.Renewal = true })
			o.Counted.Before = s.version + 1
		},
		"the lease of a dead shard is deleted at rest": func(s *historyBuilder, o *oracle.Options) {
			s.join(pc)
			s.leave(pc)
			o.Quiet = oracle.Window{From: s.now, To: s.now.Add(time.Hour)}
			s.leaseWith(history.Lease{Shard: "c", Deleted: true})
		},
		"a request that went well": func(s *historyBuilder, _ *oracle.Options) { s.ask(history.Request{Object: ab, Took: second}) },
		"a request that waits as long as a reference": func(s *historyBuilder, _ *oracle.Options) {
			s.wait(10 * second)
			s.ask(history.Request{Object: ba, Took: 4 * second, Reference: true})
			s.wait(second)
			s.ask(history.Request{Object: ab, Took: 5 * second})
		},
		"a reference that fails": func(s *historyBuilder, _ *oracle.Options) {
			s.ask(history.Request{Object: ab, Took: time.Hour, Reference: true, Error: "no API server"})
		},
		"controlled objects with the content of their owners": func(s *historyBuilder, o *oracle.Options) {
			o.Children = oneChild
			s.write(ab, func(w *history.Write) { w.Content = "1" })
			s.write(childAB, func(w *history.Write) { w.Content = "1" })
			s.createWithChild(ba, "b")
			s.remove(ba) // what is left of it is the garbage collector's
		},
		"an object of a namespace that the ring does not select": func(s *historyBuilder, o *oracle.Options) {
			o.Namespace, o.Children = ab.Namespace, oneChild
			s.write(history.Object{Kind: mainKind.Kind, Namespace: "elsewhere", Name: "some"}, func(*history.Write) {})
			s.wait(time.Hour)
		},
		"an object of another kind": func(s *historyBuilder, _ *oracle.Options) {
			s.write(history.Object{Kind: "ControllerRing", Name: "ring"}, func(*history.Write) {})
			s.wait(time.Hour)
		},
		"an object whose label is late on a busy machine": func(s *historyBuilder, o *oracle.Options) {
			o.Steps = 10
			s.write(ba, func(*history.Write) {})
			s.wait(10 * second)
			s.ask(history.Request{Object: ab, Took: second, Reference: true})
			s.wait(16 * second)
			s.give(ba, "b")
		},
		"an object whose label is late": func(s *historyBuilder, _ *oracle.Options) {
			s.write(ba, func(*history.Write) {})
			s.wait(10 * second)
			s.give(ba, "b")
			s.reconcile(pb, ba)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := idleStory(), options()
			tell(s, &o)
			for _, v := range oracle.Check(s.sorted(), o).Violations {
				t.Error(v)
			}
		})
	}
}
