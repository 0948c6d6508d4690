// Package observer keeps the observed state of a ring: its shards, the owner of each object, and
// moves of objects.
//
// It is fed by watches and a clock, and writes nothing to the cluster.
package observer

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/demo/view"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// Options describe the operator to observe.
type Options struct {
	// Ring and Namespace are those of the operator.
	Ring, Namespace string
	// Mode is one of the modes of package view.
	Mode string
	// Object is the noun for a sharded object, such as website.
	Object string
	// Clock provides the time of moves and events.
	Clock clock.PassiveClock
	// Changed is called after each change of the observed state. It must not block.
	Changed func()
}

// Object is the observed state of a sharded object.
type Object struct {
	types.NamespacedName
	// Shard is the value of the shard label. Draining is true if the object has the drain label.
	Shard    string
	Draining bool
	// Ready is true if the phase is Ready for the current generation.
	Ready bool
	Phase string
	// Failed is true if the phase is Error for the current generation: the operator cannot make the
	// object ready.
	Failed bool
	Theme  string
}

// trackedObject is an object with its last owner.
type trackedObject struct {
	Object
	lastShard string
}

// Observer is the observed state of a ring. Its methods are safe for concurrent use.
type Observer struct {
	options Options
	tracker *members.Tracker

	mu      sync.Mutex
	objects map[types.NamespacedName]trackedObject
	// leaders has the holders of leader election Leases.
	leaders map[types.NamespacedName]string
	// renewed has the renew times of Leases.
	renewed map[types.NamespacedName]time.Time
	// released are the Leases that nobody holds.
	released   map[types.NamespacedName]bool
	problem    string
	moves      []view.Move
	moved      int
	events     []view.Event
	eventCount int
}

// maxHistory is how many moves and events are kept.
const maxHistory = 1000

// New returns an observer of a ring without shards and objects.
func New(options Options) *Observer {
	o := &Observer{
		options: options, tracker: members.New(options.Clock, func(string) {}),
		objects: map[types.NamespacedName]trackedObject{}, leaders: map[types.NamespacedName]string{},
		renewed: map[types.NamespacedName]time.Time{}, released: map[types.NamespacedName]bool{},
	}
	o.tracker.Declare(options.Ring, []string{options.Namespace})
	return o
}

// change calls a function with the mutex held, and then the Changed callback.
func (o *Observer) change(change func()) {
	o.mu.Lock()
	change()
	o.mu.Unlock()
	o.options.Changed()
}

// SetObject records the current state of an object, and its move if it has another owner.
func (o *Observer) SetObject(object Object) {
	o.change(func() {
		before := o.objects[object.NamespacedName]
		now := trackedObject{object, cmp.Or(object.Shard, before.lastShard)}
		o.objects[object.NamespacedName] = now
		if before.lastShard != "" && before.lastShard != now.lastShard {
			o.moved++
			o.moves = append(o.moves, view.Move{
				At: o.options.Clock.Now(), Object: object.Namespace + "/" + object.Name, From: before.lastShard, To: now.lastShard,
			})
			o.moves = o.moves[max(0, len(o.moves)-maxHistory):]
		}
	})
}

// RemoveObject records the deletion of an object.
func (o *Observer) RemoveObject(name types.NamespacedName) {
	o.change(func() { delete(o.objects, name) })
}

// SetLeader records the holder of a leader election Lease. leader is empty if there is none.
func (o *Observer) SetLeader(lease types.NamespacedName, leader string) {
	before := ""
	o.change(func() {
		before = o.leaders[lease]
		o.leaders[lease] = leader
	})
	if leader != "" && leader != before {
		o.RecordEvent(leader, "leads", false)
	}
}

// SetRingProblem records why the ring is not ready. problem is empty if it is.
func (o *Observer) SetRingProblem(problem string) {
	o.change(func() { o.problem = problem })
}

// RecordEvent records an event.
func (o *Observer) RecordEvent(about, message string, warning bool) {
	o.change(func() {
		o.eventCount++
		o.events = append(o.events, view.Event{Number: o.eventCount, At: o.options.Clock.Now(), About: about, Message: message, Warning: warning})
		o.events = o.events[max(0, len(o.events)-maxHistory):]
	})
}

// Objects returns all objects with their owners, sorted by namespace and name.
func (o *Observer) Objects() []Object {
	o.mu.Lock()
	defer o.mu.Unlock()
	leader := o.leader()
	all := make([]Object, 0, len(o.objects))
	for _, object := range o.objects {
		if o.options.Mode == view.ModeLead {
			object.Shard = leader
		}
		all = append(all, object.Object)
	}
	slices.SortFunc(all, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// electionLease returns the name of the leader election Lease of the operator's instances.
func (o *Observer) electionLease() types.NamespacedName {
	suffix := "-leader"
	if o.options.Mode == view.ModeInProcess {
		suffix = "-sharder"
	}
	return types.NamespacedName{Namespace: o.options.Namespace, Name: o.options.Ring + suffix}
}

func (o *Observer) leader() string { return o.leaders[o.electionLease()] }

// FillState adds the observed state of the ring and of the given processes to a state of the live
// view.
func (o *Observer) FillState(state *view.State, instances, sharders []supervisor.ProcessStatus) {
	shards := map[string]members.Shard{}
	if o.options.Mode != view.ModeLead {
		for _, shard := range o.tracker.Shards(o.options.Ring) {
			shards[shard.Name] = shard
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	state.Mode = o.options.Mode
	state.Ring = view.Ring{Name: o.options.Ring, Problem: o.problem}
	state.Moves, state.Moved = slices.Clone(o.moves), o.moved
	state.Events = slices.Clone(o.events)
	counts := o.count(state, shards)
	elected := o.options.Mode != view.ModeShard
	for _, process := range instances {
		instance := instanceOf(process)
		instance.Candidate, instance.Leads = elected, elected && process.Name == o.leader()
		if shard, known := shards[process.Name]; known {
			instance.Lease, instance.Leaving = string(shard.State), shard.Leaving && shard.State.Member()
			if o.released[types.NamespacedName{Namespace: shard.Namespace, Name: shard.Name}] {
				instance.Lease = view.LeaseLeft
			}
		}
		instance.Stale = o.stale(process, instance.Leads)
		instance.Objects, instance.Draining = counts[process.Name].all, counts[process.Name].draining
		state.Instances = append(state.Instances, instance)
	}
	for _, process := range sharders {
		instance := instanceOf(process)
		instance.Candidate, instance.Leads = true, o.leads(process.Name)
		state.Sharders = append(state.Sharders, instance)
	}
	byName := func(a, b view.Instance) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	}
	slices.SortFunc(state.Instances, byName)
	slices.SortFunc(state.Sharders, byName)
}

// stale returns true if the Leases of an instance were last renewed by an earlier process of the
// same name.
func (o *Observer) stale(process supervisor.ProcessStatus, leads bool) bool {
	old := func(lease types.NamespacedName) bool { return o.renewed[lease].Before(process.Since) }
	shards := o.options.Mode != view.ModeLead
	return leads && old(o.electionLease()) || shards && old(types.NamespacedName{Namespace: o.options.Namespace, Name: process.Name})
}

func instanceOf(process supervisor.ProcessStatus) view.Instance {
	return view.Instance{
		Name: process.Name, Process: string(process.Phase), PID: process.PID, Since: process.Since,
		Restarts: process.Restarts, Note: process.Note, RestartAt: process.RestartAt, Removing: process.Removing,
	}
}

// leads returns true if a process holds any leader election Lease.
func (o *Observer) leads(name string) bool {
	for _, leader := range o.leaders {
		if leader == name {
			return true
		}
	}
	return false
}

type count struct{ all, draining int }

// count sets the totals in the state, and returns the number of objects of each instance.
func (o *Observer) count(state *view.State, shards map[string]members.Shard) map[string]count {
	counts, leader := map[string]count{}, o.leader()
	state.Objects = view.Objects{Name: o.options.Object, Total: len(o.objects)}
	for _, object := range o.objects {
		if object.Ready {
			state.Objects.Ready++
		}
		if object.Failed {
			state.Objects.Failed++
		}
		owner := object.Shard
		if o.options.Mode == view.ModeLead {
			owner, object.Draining = leader, false
		}
		if o.options.Mode != view.ModeLead {
			if owner == "" {
				state.Objects.Unassigned++
			} else if shard, known := shards[owner]; !known || !shard.State.Member() {
				state.Objects.Orphaned++
			}
		}
		ownerCount := counts[owner]
		ownerCount.all++
		if object.Draining {
			ownerCount.draining++
			state.Objects.Draining++
		}
		counts[owner] = ownerCount
	}
	return counts
}
