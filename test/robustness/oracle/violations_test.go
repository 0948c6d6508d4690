package oracle_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
	"github.com/ringmaster-project/ringmaster/test/robustness/oracle"
)

// hangPastLease pauses the shard a, assigns its object to b, and resumes a.
func (s *historyBuilder) hangPastLease() {
	s.addProcessEvent(history.Paused, pa)
	s.wait(10 * second)
	s.takeOver(pa)
	s.give(ab, "b")
	s.give(childAB, "b")
	s.addProcessEvent(history.Resumed, pa)
}

// TestViolations has histories with exactly one violation.
func TestViolations(t *testing.T) {
	for name, test := range map[string]struct {
		tell func(*historyBuilder, *oracle.Options)
		want []finding
	}{
		"two shards reconcile one object": {func(s *historyBuilder, _ *oracle.Options) {
			number, version := s.start(pa, ab), s.objects[ab].Version
			s.give(ab, "b")
			s.give(childAB, "b")
			s.reconcile(pb, ab)
			s.end(pa, ab, number, version)
			s.leave(pa)
		}, []finding{{oracle.Overlap, ab.String(), "a/1 b/1"}}},
		"two processes of one name reconcile one object": {func(s *historyBuilder, _ *oracle.Options) {
			number := s.start(pa, ab)
			s.lease("a", "a", "a/2")
			s.addProcessEvent(history.Joined, "a/2")
			s.reconcile("a/2", ab)
			s.end(pa, ab, number, s.objects[ab].Version)
		}, []finding{{oracle.Overlap, ab.String(), "a/1 a/2"}}},
		"a shard that hung for less than its lease overlaps": {func(s *historyBuilder, _ *oracle.Options) {
			number, version := s.start(pa, ab), s.objects[ab].Version
			s.addProcessEvent(history.Paused, pa)
			s.give(ab, "b")
			s.give(childAB, "b")
			s.reconcile(pb, ab)
			s.addProcessEvent(history.Resumed, pa)
			s.end(pa, ab, number, version)
			s.wait(3 * second) // long enough that the pause does not matter
			s.leave(pa)
		}, []finding{{oracle.Overlap, ab.String(), "a/1 b/1"}}},
		"a reconcile goes on after waking up without lease": {func(s *historyBuilder, _ *oracle.Options) {
			number, version := s.start(pa, ab), s.objects[ab].Version
			s.hangPastLease()
			s.reconcile(pb, ab)
			s.wait(5 * second)
			s.end(pa, ab, number, version)
			s.addProcessEvent(history.Lost, pa)
		}, []finding{{oracle.Overlap, ab.String(), "a/1 b/1"}}},
		"a start after waking up without lease": {func(s *historyBuilder, _ *oracle.Options) {
			version := s.objects[ab].Version
			s.hangPastLease()
			s.wait(300 * time.Millisecond)
			s.end(pa, ab, s.start(pa, ab), version)
			s.addProcessEvent(history.Lost, pa)
		}, []finding{{oracle.NoLease, ab.String(), "a/1"}}},
		"a start that was decided before the pause": {func(s *historyBuilder, _ *oracle.Options) {
			version := s.objects[ab].Version
			s.hangPastLease()
			s.end(pa, ab, s.start(pa, ab), version)
			s.addProcessEvent(history.Lost, pa)
		}, nil},
		"a start after another process got the name": {func(s *historyBuilder, _ *oracle.Options) {
			s.lease("a", "a", "a/2")
			s.addProcessEvent(history.Joined, "a/2")
			s.reconcile(pa, ab)
		}, []finding{{oracle.NoLease, ab.String(), "a/1"}}},
		"a start after leaving": {func(s *historyBuilder, _ *oracle.Options) {
			s.handOver(childAB, "b")
			s.handOver(ab, "b")
			version := s.objects[ab].Version - 2
			s.lease("a", "", pa)
			s.end(pa, ab, s.start(pa, ab), version)
		}, []finding{{oracle.NoLease, ab.String(), "a/1"}}},
		"a start with a version before the release": {func(s *historyBuilder, _ *oracle.Options) {
			version := s.objects[ab].Version
			s.handOver(childAB, "b")
			s.handOver(ab, "b")
			s.end(pa, ab, s.start(pa, ab), version)
			s.leave(pa)
		}, []finding{{oracle.Foreign, ab.String(), "a/1"}}},
		"a start with somebody else's version": {func(s *historyBuilder, _ *oracle.Options) {
			s.reconcile(pb, ab)
		}, []finding{{oracle.Foreign, ab.String(), "b/1"}}},
		"a start without a version, on somebody else's object": {func(s *historyBuilder, _ *oracle.Options) {
			s.end(pb, ab, s.start(pb, ab), 0)
		}, []finding{{oracle.Foreign, ab.String(), "b/1"}}},
		"a start without a version, too early": {func(s *historyBuilder, _ *oracle.Options) {
			s.end(pb, ba, s.start(pb, ba), 0)
			s.wait(5 * second)
			s.createWithChild(ba, "b")
		}, []finding{{oracle.Foreign, ba.String(), "b/1"}}},
		"a reconcile of an object that never was": {func(s *historyBuilder, _ *oracle.Options) {
			s.end(pb, ba, s.start(pb, ba), 0)
		}, []finding{{oracle.Foreign, ba.String(), "b/1"}}},
		"a label that was changed by hand is ignored for too long": {func(s *historyBuilder, o *oracle.Options) {
			o.ByHand = map[history.Object]bool{ab: true}
			number, version := s.start(pa, ab), s.objects[ab].Version
			s.write(ab, func(w *history.Write) { w.Shard, w.Manager = "b", "vandal" })
			other := s.start(pb, ab)
			s.wait(3 * second)
			s.end(pa, ab, number, version)
			s.end(pb, ab, other, s.objects[ab].Version)
			s.end(pa, ab, s.start(pa, ab), version)
			s.give(ab, "a")
		}, []finding{{oracle.Foreign, ab.String(), "a/1"}, {oracle.Overlap, ab.String(), "a/1 b/1"}}},
		"an object that nobody has": {func(s *historyBuilder, _ *oracle.Options) {
			s.write(ba, func(*history.Write) {})
			s.wait(21 * second)
			s.give(ba, "b")
		}, []finding{{oracle.Unowned, ba.String(), ""}}},
		"an object that nobody has for longer than a busy machine explains": {func(s *historyBuilder, o *oracle.Options) {
			o.Steps = 10
			s.write(ba, func(*history.Write) {})
			s.wait(10 * second)
			s.ask(history.Request{Object: ab, Took: 500 * time.Millisecond, Reference: true})
			s.wait(16 * second)
			s.give(ba, "b")
		}, []finding{{oracle.Unowned, ba.String(), ""}}},
		"a child that follows later than a busy machine explains": {func(s *historyBuilder, o *oracle.Options) {
			o.Steps = 10
			s.createWithChild(cab, "a")
			s.join(pc)
			s.handOver(cab, "c")
			s.wait(6 * second)
			s.ask(history.Request{Object: ab, Took: 500 * time.Millisecond, Reference: true})
			s.wait(10 * second)
			s.give(childOf(cab), "c")
		}, []finding{{oracle.Apart, childOf(cab).String(), ""}}},
		"an object whose shard is dead": {func(s *historyBuilder, _ *oracle.Options) {
			s.createWithChild(ba, "b")
			s.addProcessEvent(history.Gone, pb)
			s.wait(5 * second)
			s.takeOver(pb)
			s.wait(16 * second)
			s.give(ba, "a")
			s.give(childOf(ba), "a")
		}, []finding{{oracle.Unowned, ba.String(), ""}, {oracle.Unowned, childOf(ba).String(), ""}}},
		"an object whose shard hangs": {func(s *historyBuilder, _ *oracle.Options) {
			s.addProcessEvent(history.Paused, pa)
			s.wait(21 * second)
			s.addProcessEvent(history.Resumed, pa)
		}, []finding{{oracle.Unowned, ab.String(), ""}, {oracle.Unowned, childAB.String(), ""}}},
		"a child that does not follow": {func(s *historyBuilder, _ *oracle.Options) {
			s.createWithChild(cab, "a")
			s.join(pc)
			s.handOver(cab, "c")
			s.wait(11 * second)
			s.give(childOf(cab), "c")
		}, []finding{{oracle.Apart, childOf(cab).String(), ""}}},
		"a child that the sharder takes away first": {func(s *historyBuilder, _ *oracle.Options) {
			s.createWithChild(cab, "a")
			s.join(pc)
			s.drain(cab, "c")
			s.wait(6 * second)
			s.give(childOf(cab), "c")
			s.handOver(cab, "c")
		}, []finding{{oracle.LeftOwner, childOf(cab).String(), "a"}}},
		"a child is reassigned while its shard comes back and reconciles": {func(s *historyBuilder, _ *oracle.Options) {
			s.addProcessEvent(history.Gone, pa)
			s.wait(10 * second)
			s.takeOver(pa)
			s.join("a/2")
			s.give(childAB, "b")
			s.reconcile("a/2", ab)
			s.give(childAB, "a")
		}, []finding{{oracle.LeftOwner, childAB.String(), "a/2"}}},
		"a child that is handed over while its owner is worked on": {func(s *historyBuilder, _ *oracle.Options) {
			s.createWithChild(cab, "a")
			s.join(pc)
			number := s.start(pa, cab)
			s.drain(cab, "c")
			s.handOver(childOf(cab), "c")
			s.end(pa, cab, number, s.objects[cab].Version)
			s.handOver(cab, "c")
		}, []finding{{oracle.LeftOwner, childOf(cab).String(), "a/1"}}},
		"a request that fails": {func(s *historyBuilder, _ *oracle.Options) {
			s.ask(history.Request{Object: ab, Error: "denied"})
		}, []finding{{oracle.Refused, ab.String(), ""}}},
		"a request that waits": {func(s *historyBuilder, _ *oracle.Options) {
			s.wait(10 * second)
			s.ask(history.Request{Object: ba, Took: 100 * time.Millisecond, Reference: true})
			s.ask(history.Request{Object: ab, Took: 1200 * time.Millisecond})
		}, []finding{{oracle.Delayed, ab.String(), ""}}},
		"a request that waits longer than a slow reference": {func(s *historyBuilder, _ *oracle.Options) {
			s.wait(10 * second)
			s.ask(history.Request{Object: ba, Took: 4 * second, Reference: true})
			s.ask(history.Request{Object: ab, Took: 5*second + 100*time.Millisecond})
		}, []finding{{oracle.Delayed, ab.String(), ""}}},
		"a request that waits after a slow reference": {func(s *historyBuilder, _ *oracle.Options) {
			s.wait(10 * second)
			s.ask(history.Request{Object: ba, Took: 4 * second, Reference: true})
			s.wait(2 * second)
			s.ask(history.Request{Object: ab, Took: 2 * second})
		}, []finding{{oracle.Delayed, ab.String(), ""}}},
		"an object that moves and moves back": {func(s *historyBuilder, _ *oracle.Options) {
			s.handOver(childAB, "b")
			s.handOver(ab, "b")
			s.handOver(childAB, "a")
			s.handOver(ab, "a")
		}, []finding{{oracle.Misplaced, ab.String(), "b"}, {oracle.MovedTwice, ab.String(), "a"}}},
		"an object that moves for nothing": {func(s *historyBuilder, _ *oracle.Options) {
			s.createWithChild(cab, "a") // with a, b alone
			s.join(pc)
			s.drain(cab, "c")
			s.handOver(cab, "c")
			s.give(childOf(cab), "c")
			s.wait(10 * second)
			s.handOver(childAB, "b")
			s.handOver(ab, "b")
			s.wait(10 * second)
			s.leave(pa) // so that it ends where it belongs
		}, []finding{{oracle.Misplaced, ab.String(), "b"}, {oracle.MovedTwice, ab.String(), "b"}}},
		"an object that moves twice for one change": {func(s *historyBuilder, _ *oracle.Options) {
			s.createWithChild(cab, "a")
			s.join(pc)
			for range 2 { // the first is by the members before
				s.handOver(cab, "c")
				s.give(childOf(cab), "c")
				s.handOver(childOf(cab), "a")
				s.handOver(cab, "a")
			}
			s.handOver(cab, "c")
			s.give(childOf(cab), "c")
		}, []finding{{oracle.MovedTwice, cab.String(), "c"}}},
		"a write at rest": {func(s *historyBuilder, o *oracle.Options) {
			o.Quiet = oracle.Window{From: s.now, To: s.now.Add(time.Hour)}
			s.wait(second)
			s.write(childAB, func(*history.Write) {})
		}, []finding{{oracle.WrittenAtRest, childAB.String(), ""}}},
		"a lease that changes at rest": {func(s *historyBuilder, o *oracle.Options) {
			o.Quiet = oracle.Window{From: s.now, To: s.now.Add(time.Hour)}
			s.leaseWith(history.Lease{Shard: "b", Holder: "b", Instance: "b/2"})
		}, []finding{{oracle.WrittenAtRest, "Lease b", "b"}}},
		"the lease of a live shard is deleted at rest": {func(s *historyBuilder, o *oracle.Options) {
			s.join(pc)
			o.Quiet = oracle.Window{From: s.now, To: s.now.Add(time.Hour)}
			s.leaseWith(history.Lease{Shard: "c", Deleted: true})
		}, []finding{{oracle.WrittenAtRest, "Lease c", "c"}}},
		"a write at rest to an object of another kind": {func(s *historyBuilder, o *oracle.Options) {
			o.Quiet = oracle.Window{From: s.now, To: s.now.Add(time.Hour)}
			s.write(history.Object{Kind: "Event", Name: "some"}, func(*history.Write) {})
		}, []finding{{oracle.WrittenAtRest, "Event some", ""}}},
		"a write at rest that nobody recorded": {func(s *historyBuilder, o *oracle.Options) {
			o.Quiet, o.Counted.After = oracle.Window{From: s.now, To: s.now.Add(time.Hour)}, s.version
			s.lease("a", "a", pa)
			s.version++
			s.lease("a", "a", pa)
			o.Counted.Before = s.version
		}, []finding{{oracle.WrittenAtRest, " ", ""}}},
		"a controlled object with old content": {func(s *historyBuilder, o *oracle.Options) {
			o.Children = oneChild
			s.write(childAB, func(w *history.Write) { w.Content = "1" })
			s.write(ab, func(w *history.Write) { w.Content = "2" })
		}, []finding{{oracle.Content, ab.String(), "a"}}},
		"a controlled object that is missing": {func(s *historyBuilder, o *oracle.Options) {
			o.Children = oneChild
			s.remove(childAB)
		}, []finding{{oracle.Content, ab.String(), "a"}}},
		"a controlled object too many": {func(s *historyBuilder, o *oracle.Options) {
			o.Children = oneChild
			s.write(childOf(ba), func(w *history.Write) { w.Shard, w.Controller = "a", &ab })
		}, []finding{{oracle.Content, ab.String(), "a"}}},
		"an object at the wrong shard in the end": {func(s *historyBuilder, _ *oracle.Options) {
			s.createWithChild(cab, "a")
			s.join(pc)
		}, []finding{{oracle.EndState, cab.String(), "a"}}},
		"an object without shard in the end": {func(s *historyBuilder, _ *oracle.Options) {
			s.write(ba, func(*history.Write) {})
		}, []finding{{oracle.EndState, ba.String(), ""}}},
		"a child away from its owner in the end": {func(s *historyBuilder, _ *oracle.Options) {
			s.createWithChild(ba, "b")
			s.handOver(childOf(ba), "a")
		}, []finding{{oracle.EndState, childOf(ba).String(), "a"}}},
		"a drain that is left in the end": {func(s *historyBuilder, _ *oracle.Options) {
			s.drain(ab, "b")
		}, []finding{{oracle.EndState, ab.String(), "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := idleStory(), options()
			test.tell(s, &o)
			report := oracle.Check(s.sorted(), o)
			if diff := gocmp.Diff(test.want, findings(report)); diff != "" {
				t.Errorf("(-want +got)\n%s\n%v", diff, report.Violations)
			}
		})
	}
}
