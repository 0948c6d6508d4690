package moves

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Group runs the Mover for each ring while this process leads.
type Group struct {
	mover *Mover
	// changed is called when the Progress of a ring has changed.
	changed func(ring string)

	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // it ends when this process no longer leads
	rings map[string]*ringWork
	// ending has a channel for each stopped ring whose work has not ended yet.
	ending map[string]<-chan struct{}
	wait   sync.WaitGroup
}

// ringWork is the work on one ring, with its Progress.
type ringWork struct {
	uid        types.UID
	generation int64
	resources  int
	stop       context.CancelFunc
	requests   chan struct{}
	// after is closed when earlier work on the same ring has ended, and ended when this work has.
	after <-chan struct{}
	ended chan struct{}
	Progress
}

// NewGroup returns a Group. The options' Synced and Drained are called as well as the Group's.
func NewGroup(options Options, changed func(ring string)) *Group {
	g := &Group{changed: changed, rings: map[string]*ringWork{}, ending: map[string]<-chan struct{}{}}
	synced, drained := options.OnSynced, options.OnDrained
	options.OnSynced = func(ring string, counts Counts, err error) {
		synced(ring, counts, err)
		g.note(ring, func(w *ringWork) { w.Synced, w.Counts, w.Err = true, counts, err })
	}
	options.OnDrained = func(ring string, report DrainReport) {
		drained(ring, report)
		g.note(ring, func(w *ringWork) { w.Drains = report })
	}
	g.mover = New(options)
	return g
}

func (g *Group) note(ring string, change func(*ringWork)) {
	g.mu.Lock()
	known := g.rings[ring]
	if known != nil {
		change(known)
	}
	g.mu.Unlock()
	if known != nil {
		g.changed(ring)
	}
}

// NeedLeaderElection is true: one Group at a time is enough.
func (g *Group) NeedLeaderElection() bool { return true }

// Start runs until ctx ends and waits for the end of all work.
func (g *Group) Start(ctx context.Context) error {
	g.mu.Lock()
	g.ctx = ctx
	for name, known := range g.rings {
		g.run(name, known)
	}
	g.mu.Unlock()
	<-ctx.Done()
	g.wait.Wait()
	return nil
}

// Ensure starts the work on a ring. If the ring's spec has changed, it is a new ring of the same name, or more of
// its resources are known, it requests a resync.
func (g *Group) Ensure(ring string, uid types.UID, generation int64, resources int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.rings[ring]
	if known == nil {
		known = &ringWork{
			uid: uid, generation: generation, resources: resources,
			requests: make(chan struct{}, 1), after: g.ending[ring], ended: make(chan struct{}),
		}
		g.rings[ring] = known
		if g.ctx != nil && g.ctx.Err() == nil {
			g.run(ring, known)
		}
		return
	}
	if known.uid == uid && known.generation == generation && known.resources == resources {
		return
	}
	known.uid, known.generation, known.resources = uid, generation, resources
	known.resync()
}

// Resync requests a resync of a ring.
func (g *Group) Resync(ring string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.rings[ring]; known != nil {
		known.resync()
	}
}

func (w *ringWork) resync() {
	select {
	case w.requests <- struct{}{}:
	default: // a request is already pending
	}
}

func (g *Group) run(ring string, known *ringWork) {
	ctx, stop := context.WithCancel(g.ctx)
	known.stop = stop
	g.wait.Go(func() {
		defer close(known.ended)
		if known.after != nil {
			<-known.after // so that two workers of a ring do not do the same work
		}
		g.mover.Run(ctx, ring, known.requests)
	})
}

// Stop ends the work on a ring.
func (g *Group) Stop(ring string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.rings[ring]; known != nil {
		if known.stop != nil {
			known.stop()
			g.ending[ring] = known.ended
			go g.forget(ring, known.ended)
		}
		delete(g.rings, ring)
	}
}

// forget removes stopped work when it has ended.
func (g *Group) forget(ring string, ended <-chan struct{}) {
	<-ended
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ending[ring] == ended {
		delete(g.ending, ring)
	}
}

// Progress is the known state of a ring's objects.
type Progress struct {
	// Synced is whether this process has listed all objects. Until then, the rest is empty.
	Synced bool
	// Counts are the results of the last passes, and Err is why objects could not be assigned.
	Counts Counts
	Err    error
	Drains DrainReport
}

// Progress returns the known state of a ring's objects.
func (g *Group) Progress(ring string) Progress {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.rings[ring]; known != nil {
		return known.Progress
	}
	return Progress{}
}

// Mover returns the Mover that the Group runs.
func (g *Group) Mover() *Mover { return g.mover }
