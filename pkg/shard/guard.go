package shard

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// ErrTaken is the cause with which the context of a reconcile ends whose object is no longer this
// shard's, or is asked for and was not let go in time.
var ErrTaken = errors.New("the object is no longer this shard's")

// key names a main object.
type key struct {
	kind schema.GroupKind
	types.NamespacedName
}

// guard knows which objects are being worked on, and keeps reconcilers away from those that are on
// their way to another shard. Without it a reconcile could start on what the cache still shows of
// an object that has just been given away.
type guard struct {
	mu      sync.Mutex
	objects map[key]*held
}

// held is an object that is being worked on or handed over.
type held struct {
	runs   map[*run]struct{}
	closed bool
	busy   bool // somebody hands it over
	// idle is closed when the last run has ended, if somebody waits for that.
	idle chan struct{}
	// given is the version of the object with which it became another shard's.
	given string
}

// run is one call of a reconciler.
type run struct{ stop context.CancelCauseFunc }

func newGuard() *guard { return &guard{objects: map[key]*held{}} }

func (g *guard) at(k key) *held {
	if g.objects[k] == nil {
		g.objects[k] = &held{runs: map[*run]struct{}{}}
	}
	return g.objects[k]
}

// enter begins a run, unless the object is being handed over. The context ends when the object is
// taken away; leave ends the run.
func (g *guard) enter(ctx context.Context, k key) (running context.Context, leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	object := g.at(k)
	if object.closed {
		return nil, nil, false
	}
	running, stop := context.WithCancelCause(ctx)
	this := &run{stop: stop}
	object.runs[this] = struct{}{}
	return running, func() {
		stop(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(object.runs, this)
		if len(object.runs) > 0 {
			return
		}
		if object.idle != nil {
			close(object.idle)
			object.idle = nil
		}
		g.tidy(k, object)
	}, true
}

// close lets no run begin any more, and returns a channel that is closed when none is left. It is for one
// caller at a time, until that calls done; others get nothing.
func (g *guard) close(k key) (idle <-chan struct{}, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	object := g.at(k)
	if object.busy {
		return nil, false
	}
	object.busy, object.closed = true, true
	if object.idle == nil {
		object.idle = make(chan struct{})
	}
	waiting := object.idle
	if len(object.runs) == 0 {
		close(waiting)
		object.idle = nil
	}
	return waiting, true
}

// done ends what close began. The object stays closed unless it was opened.
func (g *guard) done(k key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if object := g.objects[k]; object != nil {
		object.busy = false
		g.tidy(k, object)
	}
}

// tidy forgets an object about which there is nothing to know.
func (g *guard) tidy(k key, object *held) {
	if !object.closed && !object.busy && len(object.runs) == 0 && g.objects[k] == object {
		delete(g.objects, k)
	}
}

// interrupt ends the contexts of all runs.
func (g *guard) interrupt(k key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if object := g.objects[k]; object != nil {
		for this := range object.runs {
			this.stop(ErrTaken)
		}
	}
}

// open lets runs begin again.
func (g *guard) open(k key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if object := g.objects[k]; object != nil {
		g.openLocked(k, object)
	}
}

func (g *guard) openLocked(k key, object *held) {
	object.closed, object.given = false, ""
	g.tidy(k, object)
}

// gave notes that the object is another shard's since a version. It stays closed until the cache
// has seen that.
func (g *guard) gave(k key, version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if object := g.objects[k]; object != nil {
		object.given = version
	}
}

// gone tells whether the object was given away and the cache has not seen it.
func (g *guard) gone(k key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.objects[k] != nil && g.objects[k].given != ""
}

// saw notes that the cache has a version of the object. If it is later than the one with which it
// was given away, the object has come back.
func (g *guard) saw(k key, version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	object := g.objects[k]
	if object == nil || object.given == "" {
		return
	}
	if later, err := resourceversion.CompareResourceVersion(version, object.given); err == nil && later > 0 {
		g.openLocked(k, object)
	}
}

// lost notes that the cache no longer has the object, since a version if that is known: it was deleted, or
// is another shard's. While it is being handed over it stays closed; who does that finds out too.
func (g *guard) lost(k key, version string) {
	g.interrupt(k)
	g.mu.Lock()
	defer g.mu.Unlock()
	object := g.objects[k]
	if object == nil || object.given == "" {
		return
	}
	if version != "" {
		if order, err := resourceversion.CompareResourceVersion(version, object.given); err == nil && order < 0 {
			return // that was before it came back and was given away again
		}
	}
	g.openLocked(k, object)
}
