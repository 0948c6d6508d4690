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

// Options configure a Mover.
type Options struct {
	Metadata metadata.Interface
	Rings    catalog.Source
	Members  members.Source
	// Holders reads from the API server which shards of a ring hold their Leases.
	Holders func(ctx context.Context, ring string) (map[string]bool, error)
	// Selects reports whether a ring selects the objects of a namespace.
	Selects func(declared *catalog.Ring, namespace string) bool
	// Namespaces returns the namespaces to list one by one for a ring, or nil if it is cheaper to list the cluster. It
	// is optional.
	Namespaces func(declared *catalog.Ring) []string
	// OnWrite is called for each write, with the time since the start of the pass. OnSynced is called after each resync
	// and when the results change in between. OnDrained is called when the outstanding drains change.
	OnWrite   func(ring string, resource schema.GroupResource, action assignment.Action, took time.Duration)
	OnSynced  func(ring string, counts Counts, err error)
	OnDrained func(ring string, report DrainReport)
	// NoWebhook is whether no webhook assigns objects, so that unassigned objects do not indicate an outage of it.
	NoWebhook bool
	// SyncPeriod is the time between two resyncs without a change.
	SyncPeriod time.Duration
	// ConcurrentMoves is the number of concurrent writes, over all rings and kinds.
	ConcurrentMoves int
	Clock           clock.WithTicker
}

// Mover moves the objects of rings. One process at a time should run it. Two are safe, but do the same work.
type Mover struct {
	Options
	writes *slots
	// drainWrites bounds drains. A shard answers each with a write for the object and one for every child. If it gets
	// drains faster than it can answer, objects only stay in drain for longer.
	drainWrites *slots
	// sweeps bounds the number of rings that sweep at the same time.
	sweeps *slots
	// memories has the *memory of each ring that Run works on, by name.
	memories sync.Map
}

// memory is the state of a ring's objects that is kept between passes.
type memory struct {
	drains       *drains
	failedWrites *failedWrites
	children     *pendingChildren
}

const (
	// drainShare divides ConcurrentMoves to get the number of concurrent drains.
	drainShare = 4
	// concurrentSweeps is the number of rings that sweep at the same time.
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
	return &memory{drains: newDrains(m.Clock), failedWrites: newFailedWrites(m.Clock), children: newPendingChildren()}
}

// memoryOf returns the memory of a ring that Run works on, or an empty one.
func (m *Mover) memoryOf(ring string) *memory {
	if known, found := m.memories.Load(ring); found {
		return known.(*memory)
	}
	return m.newMemory()
}

// Run keeps the objects of a ring on the right shards until ctx ends. A value on requests causes a resync.
func (m *Mover) Run(ctx context.Context, name string, requests <-chan struct{}) {
	ctx = logf.IntoContext(ctx, logf.FromContext(ctx).WithValues("controllerRing", name))
	known := m.newMemory()
	m.memories.Store(name, known)
	// Another Run of the same ring may have stored its memory meanwhile, which must stay.
	defer m.memories.CompareAndDelete(name, known)
	w := &worker{Mover: m, memory: known, name: name, requests: requests, retried: make(chan struct{}, 1)}
	for ctx.Err() == nil {
		w.round(ctx)
	}
}

// current returns a ring with its members, or false if the ring has no shards.
func (m *Mover) current(name string) (declared *catalog.Ring, shards *ring.Ring, found bool) {
	shards, _ = m.Members.Ring(name)
	declared = m.Rings.Get(name)
	return declared, shards, shards != nil && declared != nil && len(shards.Shards()) > 0
}

// AssignUnlabelled assigns the objects of a resource without a shard label, in some namespaces or in all. Unlike Run,
// any number of processes may call it.
func (m *Mover) AssignUnlabelled(ctx context.Context, name string, resource schema.GroupResource, namespaces ...string) error {
	declared, shards, found := m.current(name)
	if !found {
		return nil // a resync follows when the first shard joins
	}
	target := declared.Resource(resource)
	if target == nil {
		return nil
	}
	p := m.newPass(m.memoryOf(name), declared, shards)
	if len(namespaces) > 0 && target.Kind.Namespaced {
		p.namespaces = namespaces
	}
	p.reconcile(ctx, target, unlabelled(name))
	return p.err()
}

// Rescue assigns the unassigned and orphaned objects of a ring once. Unlike Run, any number of processes may call it.
func (m *Mover) Rescue(ctx context.Context, name string) error {
	declared, shards, found := m.current(name)
	if !found {
		return nil
	}
	p := m.newPass(m.memoryOf(name), declared, shards)
	p.rescue(ctx, declared.Resources)
	return p.err()
}

// ReconcileObject assigns one object or drains it, also concurrently with Run. If the members change meanwhile, it
// decides again, because the pass that follows the change may have missed this object.
func (m *Mover) ReconcileObject(ctx context.Context, name string, resource *catalog.Resource, full *metav1.PartialObjectMetadata) error {
	slot := slotKey{ring: name, kind: resource.Resource.GroupResource()}
	if err := m.writes.acquire(ctx, slot); err != nil {
		return err
	}
	defer m.writes.release(slot)
	o := reduce(resource, name, full)
	for range maxAttempts {
		declared, shards, found := m.current(name)
		if !found {
			return nil // a resync follows when the first shard joins
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
	return fmt.Errorf("the members of the ring changed %d times in a row", maxAttempts)
}

// errNotMain is returned by Locate for an object of another kind than the main resources.
var errNotMain = errors.New("the ring does not list its kind as a main resource")

// Locate returns the current owner of an object. It reads from the API server's watch cache, because a user's request
// waits for it.
func (m *Mover) Locate(ctx context.Context, declared *catalog.Ring, owner catalog.MainObject) (string, error) {
	return m.locate(ctx, declared, owner, metav1.ListOptions{ResourceVersion: "0"})
}
