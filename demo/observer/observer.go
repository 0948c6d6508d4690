// Package observer keeps what there is to see of a ring: who is in it, who has which object, what moves.
//
// It promises that it only looks: it is told what watches tell, and the time, and writes nothing.
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

// Options say what to look at.
type Options struct {
	// Ring and Namespace are the operator's.
	Ring, Namespace string
	// Mode is how the operator runs.
	Mode string
	// Object is what one of those that are spread is called.
	Object string
	// Clock tells when something was seen.
	Clock clock.PassiveClock
	// Changed is told that there is something new to see. It must not wait.
	Changed func()
}

// Object is what counts of an object that is spread.
type Object struct {
	types.NamespacedName
	// Shard is whose it is by its label, Draining whether it is to be let go.
	Shard    string
	Draining bool
	// Ready is whether its operator is content with it, in the words of Phase.
	Ready bool
	Phase string
	// Failed is whether its operator can do nothing about it before somebody else does.
	Failed bool
	Theme  string
}

// held is an object with who had it last.
type held struct {
	Object
	before string
}

// Scene is what was seen. Its methods may be called from several goroutines.
type Scene struct {
	options Options
	tracker *members.Tracker

	mu      sync.Mutex
	objects map[types.NamespacedName]held
	// leaders are the holders of elections, by the names of their Leases.
	leaders map[types.NamespacedName]string
	// renewed is when Leases were renewed last.
	renewed map[types.NamespacedName]time.Time
	problem string
	moves   []view.Move
	moved   int
	events  []view.Event
	told    int
}

// keep is how many moves and events are remembered.
const keep = 1000

// New returns a scene on which nothing was seen yet.
func New(options Options) *Scene {
	s := &Scene{
		options: options, tracker: members.New(options.Clock, func(string) {}),
		objects: map[types.NamespacedName]held{}, leaders: map[types.NamespacedName]string{},
		renewed: map[types.NamespacedName]time.Time{},
	}
	s.tracker.Declare(options.Ring, []string{options.Namespace})
	return s
}

// change changes something, and tells that there is something new.
func (s *Scene) change(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.options.Changed()
}

// See notes how an object is now.
func (s *Scene) See(object Object) {
	s.change(func() {
		before := s.objects[object.NamespacedName]
		now := held{object, cmp.Or(object.Shard, before.before)}
		s.objects[object.NamespacedName] = now
		if before.before != "" && before.before != now.before {
			s.moved++
			s.moves = append(s.moves, view.Move{
				At: s.options.Clock.Now(), Object: object.Namespace + "/" + object.Name, From: before.before, To: now.before,
			})
			s.moves = s.moves[max(0, len(s.moves)-keep):]
		}
	})
}

// Miss notes that an object is gone.
func (s *Scene) Miss(name types.NamespacedName) {
	s.change(func() { delete(s.objects, name) })
}

// Elect notes who holds the Lease of an election: an instance, or nobody.
func (s *Scene) Elect(lease types.NamespacedName, leader string) {
	before := ""
	s.change(func() {
		before = s.leaders[lease]
		s.leaders[lease] = leader
	})
	if leader != "" && leader != before {
		s.Tell(leader, "leads", false)
	}
}

// Worry notes what is wrong with the ring, if anything is.
func (s *Scene) Worry(problem string) {
	s.change(func() { s.problem = problem })
}

// Tell notes that something happened.
func (s *Scene) Tell(about, what string, warning bool) {
	s.change(func() {
		s.told++
		s.events = append(s.events, view.Event{Number: s.told, At: s.options.Clock.Now(), About: about, What: what, Warning: warning})
		s.events = s.events[max(0, len(s.events)-keep):]
	})
}

// Objects returns all objects in order, with who has each of them.
func (s *Scene) Objects() []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	leader := s.leader()
	all := make([]Object, 0, len(s.objects))
	for _, object := range s.objects {
		if s.options.Mode == view.ModeLead {
			object.Shard = leader
		}
		all = append(all, object.Object)
	}
	slices.SortFunc(all, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// electionLease is the Lease that the operator's instances share, if they do.
func (s *Scene) electionLease() types.NamespacedName {
	suffix := "-leader"
	if s.options.Mode == view.ModeInProcess {
		suffix = "-sharder"
	}
	return types.NamespacedName{Namespace: s.options.Namespace, Name: s.options.Ring + suffix}
}

func (s *Scene) leader() string { return s.leaders[s.electionLease()] }

// Show fills in what was seen, of the processes that there are.
func (s *Scene) Show(state *view.State, instances, sharders []supervisor.Member) {
	shards := map[string]members.Shard{}
	if s.options.Mode != view.ModeLead {
		for _, shard := range s.tracker.Shards(s.options.Ring) {
			shards[shard.Name] = shard
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state.Mode = s.options.Mode
	state.Ring = view.Ring{Name: s.options.Ring, Problem: s.problem}
	state.Moves, state.Moved = slices.Clone(s.moves), s.moved
	state.Events = slices.Clone(s.events)
	counts := s.count(state)
	elects := s.options.Mode != view.ModeShard
	for _, member := range instances {
		instance := show(member)
		instance.Candidate, instance.Leads = elects, elects && member.Name == s.leader()
		if shard, known := shards[member.Name]; known {
			instance.Lease, instance.Leaving = string(shard.State), shard.Leaving && shard.State.Member()
		}
		instance.Stale = s.stale(member, instance.Leads)
		instance.Objects, instance.Draining = counts[member.Name].all, counts[member.Name].draining
		state.Instances = append(state.Instances, instance)
	}
	for _, member := range sharders {
		instance := show(member)
		instance.Candidate, instance.Leads = true, s.leads(member.Name)
		state.Sharders = append(state.Sharders, instance)
	}
	byName := func(a, b view.Instance) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	}
	slices.SortFunc(state.Instances, byName)
	slices.SortFunc(state.Sharders, byName)
}

// stale tells whether the Leases that are an instance's by their names were renewed by an earlier process.
func (s *Scene) stale(member supervisor.Member, leads bool) bool {
	old := func(lease types.NamespacedName) bool { return s.renewed[lease].Before(member.Since) }
	shards := s.options.Mode != view.ModeLead
	return leads && old(s.electionLease()) || shards && old(types.NamespacedName{Namespace: s.options.Namespace, Name: member.Name})
}

func show(member supervisor.Member) view.Instance {
	return view.Instance{
		Name: member.Name, Process: string(member.Phase), PID: member.PID, Since: member.Since,
		Restarts: member.Restarts, Note: member.Note, Again: member.Again, Dismissed: member.Dismissed,
	}
}

// leads tells whether somebody holds any election.
func (s *Scene) leads(name string) bool {
	for _, leader := range s.leaders {
		if leader == name {
			return true
		}
	}
	return false
}

type count struct{ all, draining int }

// count counts the objects, all and those of each instance.
func (s *Scene) count(state *view.State) map[string]count {
	counts, leader := map[string]count{}, s.leader()
	state.Objects = view.Objects{Name: s.options.Object, Total: len(s.objects)}
	for _, object := range s.objects {
		if object.Ready {
			state.Objects.Ready++
		}
		if object.Failed {
			state.Objects.Failed++
		}
		owner := object.Shard
		if s.options.Mode == view.ModeLead {
			owner, object.Draining = leader, false
		}
		if owner == "" && s.options.Mode != view.ModeLead {
			state.Objects.Unassigned++
		}
		of := counts[owner]
		of.all++
		if object.Draining {
			of.draining++
			state.Objects.Draining++
		}
		counts[owner] = of
	}
	return counts
}
