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

// closeTimeout limits how long the end of a participant may take. Its session ends by itself too.
const closeTimeout = 5 * time.Second

// Participant is what takes part for an object: a *coordination.Coordinator, or a struct that embeds one and closes more than that,
// such as the connection to its store.
type Participant interface {
	Changed(ctx context.Context) <-chan struct{}
	Leave(ctx context.Context, system coordination.System) error
	Close(ctx context.Context) error
	Metrics() prometheus.Collector
}

// Participants are those of a controller, by the key of their object. Fill in Client and Finalizer, watch the Source, and Close them
// when the manager has ended.
type Participants[P Participant] struct {
	// Client writes the finalizer.
	Client client.Client
	// Finalizer keeps an object until its participant has left.
	Finalizer string
	// Registry is where the participants' metrics are, controller-runtime's if it is not set.
	Registry prometheus.Registerer

	mu    sync.Mutex
	all   map[client.ObjectKey]entry[P]
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

type entry[P Participant] struct {
	participant P
	stop        context.CancelFunc // ends the wait for changes
}

// Source has an object reconciled when another participant of its system has written something. It is for WatchesRawSource.
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

// Add makes a participant that of an object which has none, and registers its metrics.
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

// enqueue has an object reconciled. Before the controller starts there is no need to: it reconciles all objects then.
func (p *Participants[P]) enqueue(key client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue != nil {
		p.queue.Add(reconcile.Request{NamespacedName: key})
	}
}

// Hold adds the finalizer to an object, if it is not there. Call it before the participant's first Reconcile.
func (p *Participants[P]) Hold(ctx context.Context, object client.Object) error {
	return p.patch(ctx, object, controllerutil.AddFinalizer)
}

// Leave has the participant of a deleted object leave, closes it, and removes the finalizer. An object without a participant has
// said nothing, unless its process ended: Add it then before. After an error it is called again.
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
	// Other finalizers must not get lost.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(p.Client.Patch(ctx, object, patch))
}

// Close closes all participants, so that the others need not wait until they are missed. What they have said stays, for the
// process that comes next.
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

// remove closes the participant of an object. A new one can be added.
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
	_ = e.participant.Close(ctx) // its session ends by itself too
	e.stop()
	p.registry().Unregister(e.participant.Metrics())
}

func (p *Participants[P]) registry() prometheus.Registerer {
	if p.Registry != nil {
		return p.Registry
	}
	return metrics.Registry
}
