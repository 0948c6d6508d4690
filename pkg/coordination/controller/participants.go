package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// closeTimeout limits how long closing a participant may take. If it fails, the session expires.
const closeTimeout = 5 * time.Second

// Participant takes part in the coordination for an object. It is a *coordination.Coordinator, or a struct that embeds one and whose
// Close also closes other things, such as the connection to the store.
type Participant interface {
	Changed(ctx context.Context) <-chan struct{}
	Leave(ctx context.Context, system coordination.System) error
	Close(ctx context.Context) error
	Metrics() prometheus.Collector
}

// Participants holds the participants of a controller, by the key of their object. Set Client and Finalizer, watch the Source, and
// call Close when the manager has ended.
type Participants[P Participant] struct {
	// Client writes the finalizer.
	Client client.Client
	// Finalizer keeps an object until its participant has left.
	Finalizer string
	// Registry is where the metrics of the participants are registered. It defaults to controller-runtime's.
	Registry prometheus.Registerer

	mu    sync.Mutex
	all   map[client.ObjectKey]entry[P]
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

type entry[P Participant] struct {
	participant P
	stop        context.CancelFunc // ends the watch for changes
}

// Source returns a source for WatchesRawSource. It requests a reconcile of an object when another participant of its system has
// written something.
func (p *Participants[P]) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.queue = queue
		return nil
	})
}

// Get returns the participant of an object, and whether it has one.
func (p *Participants[P]) Get(key client.ObjectKey) (P, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, found := p.all[key]
	return e.participant, found
}

// Add sets the participant of an object, and registers its metrics. It returns an error if the object has a participant.
func (p *Participants[P]) Add(key client.ObjectKey, participant P) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, exists := p.all[key]; exists {
		return fmt.Errorf("adding the participant of %s: it has one already", key)
	}
	if err := p.registry().Register(participant.Metrics()); err != nil {
		return fmt.Errorf("registering the metrics of %s: %w", key, err)
	}
	if p.all == nil {
		p.all = map[client.ObjectKey]entry[P]{}
	}
	ctx, stop := context.WithCancel(context.Background()) //nolint:gosec // remove calls it
	p.all[key] = entry[P]{participant, stop}
	changed := participant.Changed(ctx)
	go func() {
		for range changed {
			p.enqueue(key)
		}
	}()
	return nil
}

// enqueue requests a reconcile of an object. It does nothing before the controller starts, which reconciles all objects then.
func (p *Participants[P]) enqueue(key client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue != nil {
		p.queue.Add(reconcile.Request{NamespacedName: key})
	}
}

// AddFinalizer adds the finalizer to an object. Call it before the participant's first Reconcile.
func (p *Participants[P]) AddFinalizer(ctx context.Context, object client.Object) error {
	return p.patch(ctx, object, controllerutil.AddFinalizer)
}

// Leave calls Leave of the participant of a deleted object, closes the participant, and removes the finalizer. Add the participant
// before, also if this process has not reconciled the object yet: an earlier process may have written entries. Call Leave again after
// an error.
func (p *Participants[P]) Leave(ctx context.Context, object client.Object, system coordination.System) error {
	key := client.ObjectKeyFromObject(object)
	if participant, found := p.Get(key); found {
		if err := participant.Leave(ctx, system); err != nil {
			return fmt.Errorf("leaving the coordination: %w", err)
		}
		p.remove(ctx, key)
	}
	return p.patch(ctx, object, controllerutil.RemoveFinalizer)
}

func (p *Participants[P]) patch(ctx context.Context, object client.Object, change func(client.Object, string) bool) error {
	before := object.DeepCopyObject().(client.Object)
	if !change(object, p.Finalizer) {
		return nil
	}
	// Without the lock, the patch could remove a finalizer that another client has just added.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(p.Client.Patch(ctx, object, patch))
}

// Close closes all participants, so that the others need not wait until their sessions expire. Their entries stay for the next
// process.
func (p *Participants[P]) Close(ctx context.Context) {
	p.mu.Lock()
	var keys []client.ObjectKey
	for key := range p.all {
		keys = append(keys, key)
	}
	p.mu.Unlock()
	for _, key := range keys {
		p.remove(ctx, key)
	}
}

// remove closes and removes the participant of an object.
func (p *Participants[P]) remove(ctx context.Context, key client.ObjectKey) {
	p.mu.Lock()
	e, found := p.all[key]
	delete(p.all, key)
	p.mu.Unlock()
	if !found {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	_ = e.participant.Close(ctx) // otherwise its session expires
	e.stop()
	p.registry().Unregister(e.participant.Metrics())
}

func (p *Participants[P]) registry() prometheus.Registerer {
	if p.Registry != nil {
		return p.Registry
	}
	return metrics.Registry
}
