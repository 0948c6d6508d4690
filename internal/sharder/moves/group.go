package moves

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Group runs a Mover for each ring, for as long as this process leads.
type Group struct {
	mover *Mover
	// changed is called when the progress of a ring has changed.
	changed func(ring string)

	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // it is the time for which this process leads
	rings map[string]*member
	// ending are the runs of rings that were stopped and may not have ended yet.
	ending map[string]<-chan struct{}
	wait   sync.WaitGroup
}

// member is the work on one ring, with its progress.
type member struct {
	uid        types.UID
	generation int64
	resources  int
	stop       context.CancelFunc
	requests   chan struct{}
	// after is closed when an earlier run of the same ring has ended, and ended when this one has.
	after <-chan struct{}
	ended chan struct{}
	Progress
}

// NewGroup returns a Group. The options' Synced and Drained are called as well as the Group's.
func NewGroup(options Options, changed func(ring string)) *Group {
	g := &Group{changed: changed, rings: map[string]*member{}, ending: map[string]<-chan struct{}{}}
	synced, drained := options.Synced, options.Drained
	options.Synced = func(ring string, counts Counts, err error) {
		synced(ring, counts, err)
		g.note(ring, func(m *member) { m.Synced, m.Counts, m.Err = true, counts, err })
	}
	options.Drained = func(ring string, report DrainReport) {
		drained(ring, report)
		g.note(ring, func(m *member) { m.Drains = report })
	}
	g.mover = New(options)
	return g
}

func (g *Group) note(ring string, change func(*member)) {
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

// Ensure makes the Group work on a ring. When the ring's spec has changed, or it is another one of the
// same name, or more of its resources have become known, all objects are listed again.
func (g *Group) Ensure(ring string, uid types.UID, generation int64, resources int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.rings[ring]
	if known == nil {
		known = &member{
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

// Resync makes the Group list all objects of a ring at once.
func (g *Group) Resync(ring string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.rings[ring]; known != nil {
		known.resync()
	}
}

func (m *member) resync() {
	select {
	case m.requests <- struct{}{}:
	default: // it has been asked already
	}
}

func (g *Group) run(ring string, known *member) {
	ctx, stop := context.WithCancel(g.ctx)
	known.stop = stop
	g.wait.Go(func() {
		defer close(known.ended)
		if known.after != nil {
			<-known.after // two runs of one ring would repeat each other's work
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

// forget drops a run that was stopped, when it has ended.
func (g *Group) forget(ring string, ended <-chan struct{}) {
	<-ended
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ending[ring] == ended {
		delete(g.ending, ring)
	}
}

// Progress is what is known of the objects of a ring.
type Progress struct {
	// Synced is whether this process has listed all objects, and knows anything at all.
	Synced bool
	// Counts are what the last passes found, and Err is what keeps objects from their shards.
	Counts Counts
	Err    error
	Drains DrainReport
}

// Progress returns what is known of a ring.
func (g *Group) Progress(ring string) Progress {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.rings[ring]; known != nil {
		return known.Progress
	}
	return Progress{}
}

// Mover does the work.
func (g *Group) Mover() *Mover { return g.mover }
