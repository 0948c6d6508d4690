package moves

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

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
	// Selects tells whether a ring selects the objects of a namespace.
	Selects func(declared *catalog.Ring, namespace string) bool
	// Namespaces returns the namespaces that a ring selects where these are so few that listing them one by one is
	// cheaper than listing the cluster, or nil. It is optional.
	Namespaces func(declared *catalog.Ring) []string
	// Report gets each write, with the time since the start of the pass that it came of; Synced what is known of the
	// objects after each resync, and when that changes between two; Drained the outstanding drains.
	Report  func(ring string, resource schema.GroupResource, action assignment.Action, took time.Duration)
	Synced  func(ring string, counts Counts, err error)
	Drained func(ring string, report DrainReport)
	// NoWebhook is whether no webhook assigns objects, so that unassigned ones are not a sign of its outage.
	NoWebhook bool
	// SyncPeriod is how often all objects are listed although nothing seems to have changed.
	SyncPeriod time.Duration
	// ConcurrentMoves is how many objects are written at the same time, over all rings and kinds.
	ConcurrentMoves int
	Clock           clock.WithTicker
}

// Mover moves the objects of rings. Only one process at a time should run it, for economy: two would repeat each other's
// work, but do no harm.
type Mover struct {
	Options
	writes *slots
	// drainWrites bounds drains. A shard answers each with a write for every child and one for the object; asked faster
	// than it can answer, objects would only spend longer in drain.
	drainWrites *slots
	// sweeps bounds how many rings list what is mostly not theirs at the same time.
	sweeps *slots
	// memories are those of the rings that Run works on, by name.
	memories sync.Map
}

// memory is what is kept of a ring's objects between two passes.
type memory struct {
	drains   *drains
	refusals *refusals
	children *pendingChildren
}

const (
	// drainShare of what may be written at the same time is for drains.
	drainShare = 4
	// concurrentSweeps is how many rings sweep at the same time.
	concurrentSweeps = 2
)

// New returns a Mover.
func New(options Options) *Mover {
	return &Mover{
		Options:     options,
		writes:      newSlots(options.ConcurrentMoves),
		drainWrites: newSlots(max(1, options.ConcurrentMoves/drainShare)),
		sweeps:      newSlots(concurrentSweeps),
	}
}

func (m *Mover) newMemory() *memory {
	return &memory{drains: newDrains(m.Clock), refusals: newRefusals(m.Clock), children: newPendingChildren()}
}

// memoryOf is what Run knows of a ring, if it works on that ring in this process.
func (m *Mover) memoryOf(ring string) *memory {
	if known, found := m.memories.Load(ring); found {
		return known.(*memory)
	}
	return m.newMemory()
}

// Run keeps the objects of a ring with the right shards until ctx ends. A value on requests makes it list all objects at
// once.
func (m *Mover) Run(ctx context.Context, name string, requests <-chan struct{}) {
	ctx = logf.IntoContext(ctx, logf.FromContext(ctx).WithValues("controllerRing", name))
	known := m.newMemory()
	m.memories.Store(name, known)
	// Another Run of the same ring may have begun; what that one stored stays.
	defer m.memories.CompareAndDelete(name, known)
	r := &run{Mover: m, memory: known, name: name, requests: requests, retried: make(chan struct{}, 1)}
	for ctx.Err() == nil {
		r.round(ctx)
	}
}

// current returns a ring with its members, or false if there is nobody to assign objects to.
func (m *Mover) current(name string) (declared *catalog.Ring, shards *ring.Ring, found bool) {
	shards, _ = m.Members.Ring(name)
	declared = m.Rings.Get(name)
	return declared, shards, shards != nil && declared != nil && len(shards.Shards()) > 0
}

// Seek assigns the objects of a resource that have no shard label: those in some namespaces, or all of them if no
// namespaces are given. Unlike Run it may be called by any number of processes.
func (m *Mover) Seek(ctx context.Context, name string, resource schema.GroupResource, namespaces ...string) error {
	declared, shards, found := m.current(name)
	if !found {
		return nil // when there are shards, everything is listed
	}
	sought := declared.Resource(resource)
	if sought == nil {
		return nil
	}
	p := m.newPass(m.memoryOf(name), declared, shards)
	if len(namespaces) > 0 && sought.Kind.Namespaced {
		p.namespaces = namespaces
	}
	p.settle(ctx, sought, unlabelled(name))
	return p.err()
}

// Rescue assigns the unassigned and orphaned objects of a ring once. Unlike Run it may be called by any number of
// processes.
func (m *Mover) Rescue(ctx context.Context, name string) error {
	declared, shards, found := m.current(name)
	if !found {
		return nil
	}
	p := m.newPass(m.memoryOf(name), declared, shards)
	p.rescue(ctx, declared.Resources)
	return p.err()
}

// Settle assigns one object, or asks its owner to release it. It may be called while Run works. If the members change
// meanwhile, the pass that came of that may have missed this object, so the decision is repeated.
func (m *Mover) Settle(ctx context.Context, name string, resource *catalog.Resource, full *metav1.PartialObjectMetadata) error {
	slot := user{ring: name, kind: resource.Resource.GroupResource()}
	if err := m.writes.take(ctx, slot); err != nil {
		return err
	}
	defer m.writes.free(slot)
	o := reduce(resource, name, full)
	for range attempts {
		declared, shards, found := m.current(name)
		if !found {
			return nil // when there are shards, everything is listed
		}
		p := m.newPass(m.memoryOf(name), declared, shards)
		if _, err := p.apply(ctx, resource, o, p.decide(ctx, resource, o, p.newLiveness())); err != nil {
			return err
		}
		if err := p.err(); err != nil {
			return err
		}
		if now, _ := m.Members.Ring(name); now == shards {
			return nil
		}
		fresh, err := m.read(ctx, resource, o.namespace, o.name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("rereading the object: %w", err)
		}
		o = reduce(resource, name, fresh)
	}
	return fmt.Errorf("the members of the ring changed %d times in a row", attempts)
}

// errNotMain is why an owner cannot be located.
var errNotMain = errors.New("the ring does not list its kind as a main resource")

// Locate returns the shard that owns an object now. It reads the API server's cache, because a user's request waits for
// it.
func (m *Mover) Locate(ctx context.Context, declared *catalog.Ring, owner catalog.Owner) (string, error) {
	return m.locate(ctx, declared, owner, metav1.ListOptions{ResourceVersion: "0"})
}
