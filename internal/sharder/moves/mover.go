package moves

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// Options are what a Mover needs.
type Options struct {
	Metadata metadata.Interface
	Rings    catalog.Source
	Members  members.Source
	// Holders reads from the API server which shards of a ring hold their Leases at this moment.
	Holders func(ctx context.Context, ring string) (map[string]bool, error)
	// Selects tells whether a ring spreads the objects of a namespace.
	Selects func(declared *catalog.Ring, namespace string) bool
	// Report is told each write, with the time since the look began that it came of; Synced the end of
	// each sync, and Drained how drains are going.
	Report  func(ring string, resource schema.GroupResource, action assignment.Action, took time.Duration)
	Synced  func(ring string, counts Counts, err error)
	Drained func(ring string, report DrainReport)
	// SyncPeriod is how often all objects are looked at although nothing seems to have changed.
	SyncPeriod time.Duration
	// ConcurrentMoves is how many objects are written at the same time, over all rings and kinds.
	ConcurrentMoves int
	Clock           clock.WithTicker
}

// Mover moves the objects of rings. Only one process at a time should run it, which is a matter of
// economy: two would be in each other's way, but do no harm.
type Mover struct {
	Options
	slots slots
	// asking bounds drains. A shard answers each with a write for every child and one for the object;
	// asked faster than it can answer, objects would only spend longer in drain.
	asking slots
	// drains are those of the rings that Run works on, by name.
	drains sync.Map
}

// askingShare of what may be written at the same time is for drains.
const askingShare = 4

// New returns a Mover.
func New(options Options) *Mover {
	return &Mover{
		Options: options,
		slots:   newSlots(options.ConcurrentMoves),
		asking:  newSlots(max(1, options.ConcurrentMoves/askingShare)),
	}
}

// When to look again although no member has changed.
var (
	// followUps catch objects that another replica of the webhook assigned by the ring as it was
	// just before the change.
	followUps = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second}
	// leavingPatience is how long to wait for a shard that is leaving.
	leavingPatience = time.Minute
	// rescuePeriod is how often to look for objects without a live shard, which is cheap: of those that
	// have one nothing is read. Nobody tells the sharder when the API server cannot reach the webhook.
	rescuePeriod = 30 * time.Second
	// drainPoll is how often to look whether shards have let go.
	drainPoll = time.Second
	// childrenPeriod is how often children follow their controllers while drains are outstanding.
	childrenPeriod = 5 * time.Second
	// retryAfter is when a sync is repeated that could not do all, doubled each time up to retryMost.
	retryAfter, retryMost = time.Second, time.Minute
)

// Run keeps the objects of a ring where they belong until ctx ends. A value on poke makes it look
// at everything at once.
func (m *Mover) Run(ctx context.Context, name string, poke <-chan struct{}) {
	ctx = logf.IntoContext(ctx, logf.FromContext(ctx).WithValues("controllerRing", name))
	r := &run{Mover: m, name: name, poke: poke, drains: newDrains(m.Clock)}
	m.drains.Store(name, r.drains)
	defer m.drains.Delete(name)
	for ctx.Err() == nil {
		r.round(ctx)
	}
}

// run is the work on one ring.
type run struct {
	*Mover
	name   string
	poke   <-chan struct{}
	drains *drains
	anew   atomic.Bool // all objects are to be looked at
	// settled are the shards among which all objects were spread by the last look at all of them.
	settled []string
	// calm is whether the last look at all objects found nothing to do, and nothing has been done since.
	calm bool
	// counted is what the last look found, and turn the number of looks at only one controlled resource.
	counted Counts
	turn    int
}

// errChanged ends a round whose premises are no longer true.
var errChanged = errors.New("the ring has changed")

// round works with one set of members and one spec until either changes.
func (r *run) round(ctx context.Context) {
	shards, changed := r.Members.Ring(r.name)
	declared := r.Rings.Get(r.name)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-changed: // nil, and so never, if the ring is not known
		case <-r.poke:
			r.anew.Store(true)
		case <-ctx.Done():
			return
		}
		cancel(errChanged)
	}()
	if shards == nil || declared == nil || len(shards.Shards()) == 0 {
		<-ctx.Done()
		return
	}
	began := r.Clock.Now()
	r.calm = false
	if r.anew.Swap(false) {
		r.settled = nil
	}
	nextSync := began.Add(r.SyncPeriod)
	var retry int
	switch {
	case r.onlyLeft(shards):
		r.settled = slices.Clone(shards.Shards()) // one that comes back finds its objects elsewhere
		retry = r.rescue(ctx, declared, shards)
	case shards.AnyLeaving():
		// A shard hands its objects over while it still works on them, and has little time for it. What
		// merely should move can wait for that, which is a change of members too.
		retry = r.rescue(ctx, declared, shards)
		nextSync = earlier(nextSync, began.Add(leavingPatience))
	default:
		retry = r.sync(ctx, declared, shards, 0)
	}
	r.keep(ctx, declared, shards, began, nextSync, retry)
}

// onlyLeft tells whether since the last look at all objects shards have left, and none has joined. Then
// only objects of those that have left can be in the wrong place, unless they were on their way there.
func (r *run) onlyLeft(shards *ring.Ring) bool {
	return r.settled != nil && r.drains.len() == 0 && !slices.ContainsFunc(shards.Shards(), func(shard string) bool { return !slices.Contains(r.settled, shard) })
}

// keep does what has to be done from time to time while nothing changes.
func (r *run) keep(ctx context.Context, declared *catalog.Ring, shards *ring.Ring, began, nextSync time.Time, failures int) {
	var (
		nextRescue   = r.Clock.Now().Add(rescuePeriod)
		nextChildren = r.Clock.Now().Add(childrenPeriod)
		followed     = 0
	)
	for ctx.Err() == nil {
		next := earlier(nextSync, nextRescue)
		if failures > 0 {
			next = earlier(next, r.Clock.Now().Add(min(retryAfter<<min(failures-1, 10), retryMost)))
		}
		if followed < len(followUps) {
			next = earlier(next, began.Add(followUps[followed]))
		}
		if r.drains.len() > 0 {
			next = earlier(next, r.Clock.Now().Add(drainPoll))
		}
		if !r.sleepUntil(ctx, next) {
			return
		}
		now := r.Clock.Now()
		switch {
		case failures > 0 || !now.Before(nextSync):
			failures = r.sync(ctx, declared, shards, failures)
			nextSync = r.Clock.Now().Add(r.SyncPeriod)
		case followed < len(followUps) && !now.Before(began.Add(followUps[followed])):
			followed++
			failures = r.rescue(ctx, declared, shards)
		case !now.Before(nextRescue):
			failures = r.rescue(ctx, declared, shards)
			nextRescue = r.Clock.Now().Add(rescuePeriod)
		}
		if r.drains.len() > 0 {
			gone := r.pollDrains(ctx, declared, shards)
			if gone && (r.drains.len() == 0 || !now.Before(nextChildren)) {
				// Who does not know of destinations leaves it to the webhook, which may be down.
				failures = max(failures, r.rescue(ctx, declared, shards))
				r.children(ctx, declared, shards)
				nextChildren = r.Clock.Now().Add(childrenPeriod)
			}
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (r *run) sleepUntil(ctx context.Context, t time.Time) bool {
	timer := r.Clock.NewTimer(max(0, t.Sub(r.Clock.Now())))
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// sync looks at all objects, those without a live shard first. When there was nothing to do the last time, controlled objects, of
// which there are most, take turns. It returns how many times in a row it could not do all.
func (r *run) sync(ctx context.Context, declared *catalog.Ring, shards *ring.Ring, failures int) int {
	p, began := r.newPass(declared, shards), r.Clock.Now()
	visited := controlled
	if r.calm && r.drains.len() == 0 {
		visited = r.inTurn(declared)
	}
	r.settled, r.calm = nil, false // until it is done
	err := errors.Join(
		p.resources(every, func(resource *catalog.Resource) error {
			return p.settle(ctx, resource, withoutLiveShard(r.name, shards))
		}),
		p.resources(main, func(resource *catalog.Resource) error {
			return p.settle(ctx, resource, withLiveShard(r.name, shards))
		}),
		p.resources(visited, func(resource *catalog.Resource) error {
			return p.settle(ctx, resource, withLiveShard(r.name, shards))
		}),
	)
	if ctx.Err() != nil {
		return 0 // it was not done, and there is a reason to do it anew
	}
	for i := range declared.Resources {
		if resource := &declared.Resources[i]; controlled(resource) && !visited(resource) {
			p.counts.keep(resource.Resource.GroupResource(), r.counted, shards.Has)
		}
	}
	r.counted = p.counts
	err = errors.Join(append(p.errs, err)...)
	p.counts.Took = r.Clock.Now().Sub(began)
	// In this order: whoever hears that it was synced finds what is being drained.
	r.Drained(r.name, r.drains.report(declared.Drain))
	r.Synced(r.name, p.counts, err)
	if err != nil {
		logf.FromContext(ctx).Error(err, "not all objects could be brought to their shards, trying again", "failures", failures+1)
		return failures + 1
	}
	r.settled, r.calm = slices.Clone(shards.Shards()), !p.acted.Load()
	return 0
}

// inTurn selects one of the controlled resources, another one each time. Their objects have the label of their controllers, which are
// looked at each time and take them along when they move: a label of theirs is wrong only if somebody has changed it.
func (r *run) inTurn(declared *catalog.Ring) func(*catalog.Resource) bool {
	var all []*catalog.Resource
	for i := range declared.Resources {
		if controlled(&declared.Resources[i]) {
			all = append(all, &declared.Resources[i])
		}
	}
	if len(all) == 0 {
		return controlled
	}
	chosen := all[r.turn%len(all)]
	r.turn++
	return func(resource *catalog.Resource) bool { return resource == chosen }
}

// rescue looks only at objects without a live shard.
func (r *run) rescue(ctx context.Context, declared *catalog.Ring, shards *ring.Ring) int {
	p := r.newPass(declared, shards)
	err := p.resources(every, func(resource *catalog.Resource) error {
		return p.settle(ctx, resource, withoutLiveShard(r.name, shards))
	})
	err = errors.Join(append(p.errs, err)...)
	r.calm = r.calm && err == nil && !p.acted.Load()
	if err != nil && ctx.Err() == nil {
		logf.FromContext(ctx).Error(err, "looking for objects without a live shard, trying again")
		return 1
	}
	return 0
}

// Rescue looks once for objects of a ring without a live shard. Unlike Run it may be called by any
// number of processes.
func (m *Mover) Rescue(ctx context.Context, name string) {
	shards, _ := m.Members.Ring(name)
	declared := m.Rings.Get(name)
	if shards == nil || declared == nil || len(shards.Shards()) == 0 {
		return
	}
	ctx = logf.IntoContext(ctx, logf.FromContext(ctx).WithValues("controllerRing", name))
	(&run{Mover: m, name: name, drains: m.drainsOf(name)}).rescue(ctx, declared, shards)
}

// drainsOf are the drains that Run knows of, if it works on that ring in this process.
func (m *Mover) drainsOf(name string) *drains {
	if known, found := m.drains.Load(name); found {
		return known.(*drains)
	}
	return newDrains(m.Clock)
}

// Settle brings one object to the shard that it belongs to. It may be called while Run works. If the members
// have changed meanwhile, the look at all objects that came of that may have missed this one: it is decided
// about again.
func (m *Mover) Settle(ctx context.Context, name string, resource *catalog.Resource, full *metav1.PartialObjectMetadata) error {
	if err := m.slots.take(ctx); err != nil {
		return err
	}
	defer m.slots.free()
	o := reduce(resource, name, full)
	for range attempts {
		shards, _ := m.Members.Ring(name)
		declared := m.Rings.Get(name)
		if shards == nil || declared == nil || len(shards.Shards()) == 0 {
			return nil // when there are, everything is looked at
		}
		p := (&run{Mover: m, name: name, drains: m.drainsOf(name)}).newPass(declared, shards)
		err := p.apply(ctx, resource, o, p.decide(ctx, resource, o, p.newWitness()))
		if err := errors.Join(append(p.errs, err)...); err != nil {
			return err
		}
		if now, _ := m.Members.Ring(name); now == shards {
			return nil
		}
		fresh, err := p.client(resource, o.namespace).Get(ctx, o.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading it again: %w", err)
		}
		o = reduce(resource, name, fresh)
	}
	return fmt.Errorf("the members of the ring have changed %d times in a row", attempts)
}

// children lets controlled objects follow their controllers.
func (r *run) children(ctx context.Context, declared *catalog.Ring, shards *ring.Ring) {
	r.calm = false // something has moved
	p := r.newPass(declared, shards)
	err := p.resources(controlled, func(resource *catalog.Resource) error {
		return p.settle(ctx, resource, withLiveShard(r.name, shards))
	})
	if err = errors.Join(append(p.errs, err)...); err != nil && ctx.Err() == nil {
		logf.FromContext(ctx).Error(err, "moving controlled objects after their controllers; the next sync tries again")
	}
}

func (r *run) newPass(declared *catalog.Ring, shards *ring.Ring) *pass {
	return &pass{Mover: r.Mover, declared: declared, members: shards, drains: r.drains, began: r.Clock.Now()}
}

// Locate returns the shard that has an object now. It reads what the API server has in its cache, because a
// user's request waits for it.
func (m *Mover) Locate(ctx context.Context, declared *catalog.Ring, owner catalog.Owner) (string, error) {
	return m.locate(ctx, declared, owner, metav1.GetOptions{ResourceVersion: "0"})
}

func (m *Mover) locate(ctx context.Context, declared *catalog.Ring, owner catalog.Owner, options metav1.GetOptions) (string, error) {
	for i := range declared.Resources {
		resource := &declared.Resources[i]
		if !resource.Main() || resource.Kind != owner.Kind {
			continue
		}
		var client metadata.ResourceInterface = m.Metadata.Resource(resource.Resource)
		if resource.Kind.Namespaced {
			client = m.Metadata.Resource(resource.Resource).Namespace(owner.Namespace)
		}
		found, err := client.Get(ctx, owner.Name, options)
		if err != nil {
			return "", fmt.Errorf("looking for the controller %s %s/%s: %w", owner.Kind.Kind, owner.Namespace, owner.Name, err)
		}
		return found.Labels[shardingv1alpha1.LabelShard(declared.Name)], nil
	}
	return "", fmt.Errorf("the ring does not spread %s", owner.Kind)
}
