package oracle_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
	"github.com/ringmaster-project/ringmaster/test/robustness/oracle"
)

var (
	mainKind  = schema.GroupKind{Kind: "ConfigMap"}
	childKind = schema.GroupKind{Kind: "Secret"}
	epoch     = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

func options() oracle.Options {
	return oracle.Options{
		Main: []schema.GroupKind{mainKind}, Controlled: []schema.GroupKind{childKind}, Sharder: "sharder",
		Staleness: 2 * time.Second, Lag: time.Second, Wake: time.Second,
		Unowned: 20 * time.Second, Apart: 10 * time.Second, Settle: 5 * time.Second, Delay: time.Second,
	}
}

// oneChild returns the children if every main object has one with the same content.
func oneChild(main *history.Write) map[history.Object]string {
	return map[history.Object]string{childOf(main.Object): main.Content}
}

// historyBuilder builds a history.
type historyBuilder struct {
	events  []history.Event
	now     time.Time
	version uint64
	// numbers counts the reconciles of each process.
	numbers map[string]int64
	// members are the shards that hold their Leases.
	members []string
	// objects and leases are the last versions.
	objects map[history.Object]history.Write
	leases  map[string]history.Lease
}

func newHistoryBuilder() *historyBuilder {
	return &historyBuilder{
		now: epoch, numbers: map[string]int64{},
		objects: map[history.Object]history.Write{}, leases: map[string]history.Lease{},
	}
}

// wait advances the time.
func (s *historyBuilder) wait(d time.Duration) { s.now = s.now.Add(d) }

func (s *historyBuilder) add(event history.Event) {
	event.Time = s.now
	s.events = append(s.events, event)
	s.wait(time.Millisecond)
}

// sorted returns the events as history.Read does.
func (s *historyBuilder) sorted() []history.Event {
	events := slices.Clone(s.events)
	slices.SortStableFunc(events, func(a, b history.Event) int { return a.Time.Compare(b.Time) })
	return events
}

// shardOf returns the shard of a process.
func shardOf(process string) string { return strings.Split(process, "/")[0] }

func (s *historyBuilder) lease(shard, holder, instance string) {
	s.leaseWith(history.Lease{Shard: shard, Holder: holder, Instance: instance})
}

func (s *historyBuilder) leaseWith(lease history.Lease) {
	_, known := s.leases[lease.Shard]
	renewal := known && s.leases[lease.Shard] == lease
	s.leases[lease.Shard] = lease
	s.version++
	lease.Version, lease.Renewal = s.version, renewal
	s.members = slices.DeleteFunc(s.members, func(member string) bool { return member == lease.Shard })
	if lease.Held() && !lease.Leaving {
		s.members = append(s.members, lease.Shard)
	}
	s.add(history.Event{Type: history.Leased, Lease: &lease})
}

// announce marks a shard as leaving.
func (s *historyBuilder) announce(process string) {
	s.leaseWith(history.Lease{Shard: shardOf(process), Holder: shardOf(process), Instance: process, Leaving: true})
}

// join makes a process join as the shard of its name.
func (s *historyBuilder) join(process string) {
	s.lease(shardOf(process), shardOf(process), process)
	s.add(history.Event{Type: history.Joined, Process: process, Shard: shardOf(process), Instance: process})
}

// leave stops a process gracefully.
func (s *historyBuilder) leave(process string) {
	s.add(history.Event{Type: history.Left, Process: process, Shard: shardOf(process)})
	s.lease(shardOf(process), "", process)
	s.addProcessEvent(history.Gone, process)
}

// ask adds a request of a user that ends now.
func (s *historyBuilder) ask(request history.Request) {
	request.Verb = "create"
	s.add(history.Event{Type: history.Requested, Request: &request})
}

func (s *historyBuilder) addProcessEvent(eventType history.EventType, process string) {
	s.add(history.Event{Type: eventType, Process: process, Shard: shardOf(process)})
}

// takeOver makes the sharder take over the Lease of a silent shard.
func (s *historyBuilder) takeOver(process string) {
	s.lease(shardOf(process), "shardlease-controller", process)
}

// write changes an object, and returns its version.
func (s *historyBuilder) write(object history.Object, change func(*history.Write)) uint64 {
	s.version++
	now, known := s.objects[object]
	if !known || now.Deleted {
		now = history.Write{Object: object, UID: fmt.Sprint("uid-", s.version), Controller: now.Controller, Manager: "user"}
	}
	change(&now)
	now.Version = s.version
	s.objects[object] = now
	s.add(history.Event{Type: history.Wrote, Write: &now})
	return s.version
}

// give is the sharder's write of a shard label.
func (s *historyBuilder) give(object history.Object, shard string) uint64 {
	return s.write(object, func(w *history.Write) {
		w.Shard, w.Manager, w.Draining, w.Destination = shard, "sharder", false, ""
	})
}

// handOver is a shard's write of a shard label.
func (s *historyBuilder) handOver(object history.Object, shard string) uint64 {
	return s.write(object, func(w *history.Write) {
		w.Shard, w.Manager, w.Draining, w.Destination = shard, "shard", false, ""
	})
}

func (s *historyBuilder) drain(object history.Object, destination string) {
	s.write(object, func(w *history.Write) { w.Draining, w.Destination = true, destination })
}

func (s *historyBuilder) remove(object history.Object) {
	s.write(object, func(w *history.Write) { w.Deleted = true })
}

// start starts a reconcile, without its version.
func (s *historyBuilder) start(process string, object history.Object) int64 {
	s.numbers[process]++
	number := s.numbers[process]
	s.add(history.Event{
		Type: history.Started, Process: process, Shard: shardOf(process),
		Reconcile: &history.Reconcile{Number: number, Object: object},
	})
	return number
}

// end ends a reconcile with its version.
func (s *historyBuilder) end(process string, object history.Object, number int64, version uint64) {
	s.add(history.Event{
		Type: history.Ended, Process: process, Shard: shardOf(process),
		Reconcile: &history.Reconcile{Number: number, Object: object, Version: version},
	})
}

// reconcile adds a complete reconcile of the current version of an object.
func (s *historyBuilder) reconcile(process string, object history.Object) {
	number := s.start(process, object)
	s.wait(10 * time.Millisecond)
	s.end(process, object, number, s.objects[object].Version)
}

// named returns a main object whose owner is the first of the shards with all of them, the second without the first, and
// so on.
func named(shards ...string) history.Object {
	for i := 0; ; i++ {
		object := history.Object{Kind: mainKind.Kind, Namespace: "default", Name: fmt.Sprint("object-", i)}
		key := assignment.Key(mainKind, object.Namespace, object.Name)
		fits := true
		for n := range shards {
			fits = fits && ring.New(shards[n:]).Owner(key) == shards[n]
		}
		if fits {
			return object
		}
	}
}

func childOf(main history.Object) history.Object {
	return history.Object{Kind: childKind.Kind, Namespace: main.Namespace, Name: main.Name}
}

// createWithChild creates a main object and its child on a shard.
func (s *historyBuilder) createWithChild(main history.Object, shard string) {
	s.write(main, func(w *history.Write) { w.Shard = shard })
	s.write(childOf(main), func(w *history.Write) { w.Shard, w.Controller = shard, &main })
}
