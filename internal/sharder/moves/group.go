package moves

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Group runs a Mover for each ring that it is told of, for as long as this process leads.
type Group struct {
	mover *Mover
	// changed is told when there is something new about a ring.
	changed func(ring string)

	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // it is the time for which this process leads
	rings map[string]*member
	wait  sync.WaitGroup
}

// member is the work on one ring, with what came of it.
type member struct {
	uid        types.UID
	generation int64
	resources  int
	stop       context.CancelFunc
	poke       chan struct{}
	Progress
}

// NewGroup returns a Group. The options' Synced and Drained are told as well as the Group.
func NewGroup(options Options, changed func(ring string)) *Group {
	g := &Group{changed: changed, rings: map[string]*member{}}
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
// same name, or more of its resources have become known, all objects are looked at again.
func (g *Group) Ensure(ring string, uid types.UID, generation int64, resources int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.rings[ring]
	if known == nil {
		known = &member{uid: uid, generation: generation, resources: resources, poke: make(chan struct{}, 1)}
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
	known.look()
}

// Look makes the Group look at all objects of a ring at once.
func (g *Group) Look(ring string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.rings[ring]; known != nil {
		known.look()
	}
}

func (m *member) look() {
	select {
	case m.poke <- struct{}{}:
	default: // it is going to look anyway
	}
}

func (g *Group) run(ring string, known *member) {
	ctx, stop := context.WithCancel(g.ctx)
	known.stop = stop
	g.wait.Go(func() { g.mover.Run(ctx, ring, known.poke) })
}

// Stop makes the Group forget a ring.
func (g *Group) Stop(ring string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.rings[ring]; known != nil {
		if known.stop != nil {
			known.stop()
		}
		delete(g.rings, ring)
	}
}

// Progress is how it goes with the objects of a ring.
type Progress struct {
	// Synced is whether this process has looked at all objects, and knows anything at all.
	Synced bool
	// Counts are what the last sync found, and Err is why it could not do all.
	Counts Counts
	Err    error
	Drains DrainReport
}

// Progress returns how it goes with a ring.
func (g *Group) Progress(ring string) Progress {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.rings[ring]; known != nil {
		return known.Progress
	}
	return Progress{}
}

// Mover is what does the work.
func (g *Group) Mover() *Mover { return g.mover }
