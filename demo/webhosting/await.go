package webhosting

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/observer"
	"github.com/ringmaster-project/ringmaster/demo/view"
)

// awaitObjects waits until all objects are ready. One that somebody has spoilt, maybe in an earlier run, is no
// reason to show nothing: it is told, and so are those that take too long.
func (d *Demo) awaitObjects(ctx context.Context) error {
	if d.options.Shards == 0 {
		return nil // nobody works on them
	}
	d.options.Report(fmt.Sprintf("waiting for all %ss to be ready", d.example.object))
	limit := startLimit + time.Duration(max(d.options.Websites, len(d.scene.Objects())))*perWebsite
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w := waiter{least: d.options.Websites}
	err := cluster.Until(waiting, "all websites to be ready", func(context.Context) (bool, error) { return w.enough(d.State()), nil })
	if ctx.Err() != nil {
		return err
	}
	if names := unready(d.scene.Objects()); names != "" {
		d.options.Report("going on without those that are not ready: " + names)
	} else if err != nil {
		d.options.Report(fmt.Sprintf("going on, though not every %s has its instance yet", d.example.object))
	}
	return nil
}

// waiter waits for objects.
type waiter struct {
	// least is how many there are to be.
	least int
	// kept is since when all are well kept.
	kept time.Time
}

// enough tells whether there is no more to wait for. Those that have failed get a moment: what they lack may
// just not have been seen yet.
func (w *waiter) enough(state view.State) bool {
	const moment = 5 * time.Second
	switch {
	case !wellKept(state, w.least):
		w.kept = time.Time{}
		return false
	case w.kept.IsZero():
		w.kept = state.Now
	}
	return state.Objects.Failed == 0 || state.Now.Sub(w.kept) >= moment
}

// wellKept tells whether there are so many objects, all are ready or have failed, and somebody who is there
// looks after each. Those of an earlier run may be ready from then on, and be whose that is not here.
func wellKept(state view.State, least int) bool {
	kept := 0
	for _, instance := range state.Instances {
		kept += instance.Objects - instance.Draining
	}
	objects := state.Objects
	return objects.Total >= least && objects.Ready+objects.Failed == objects.Total && kept == objects.Total
}

// unready are the names of objects that are not ready, with their phases: the first ones, if there are many.
func unready(objects []observer.Object) string {
	const most = 5
	var names []string
	for _, object := range objects {
		if !object.Ready {
			phase := object.Phase
			if phase == "" {
				phase = "new"
			}
			names = append(names, fmt.Sprintf("%s (%s)", object.NamespacedName, phase))
		}
	}
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
