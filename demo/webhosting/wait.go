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

// waitForObjects waits until all objects are ready or have failed. It reports objects that fail,
// maybe since an earlier run, or take too long, and returns nil: the demo runs with them.
func (d *Demo) waitForObjects(ctx context.Context) error {
	if d.options.Shards == 0 {
		return nil // no instance reconciles them
	}
	d.options.Report(fmt.Sprintf("waiting for all %ss to be ready", d.example.object))
	limit := startLimit + time.Duration(max(d.options.Websites, len(d.observer.Objects())))*perWebsite
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w := waiter{minimum: d.options.Websites}
	err := cluster.WaitFor(waiting, "all websites to be ready", func(context.Context) (bool, error) { return w.done(d.State()), nil })
	if ctx.Err() != nil {
		return err
	}
	if names := unready(d.observer.Objects()); names != "" {
		d.options.Report("continuing, although some are not ready: " + names)
	} else if err != nil {
		d.options.Report(fmt.Sprintf("continuing, although not every %s has a ready owner", d.example.object))
	}
	return nil
}

// waiter decides when to stop waiting for objects.
type waiter struct {
	// minimum is the number of objects that must exist.
	minimum int
	// since is when allReconciled became true.
	since time.Time
}

// done returns true if all objects are reconciled. Failed objects get a few seconds, because an
// instance may not have observed the objects yet that they refer to.
func (w *waiter) done(state view.State) bool {
	const settleTime = 5 * time.Second
	switch {
	case !allReconciled(state, w.minimum):
		w.since = time.Time{}
		return false
	case w.since.IsZero():
		w.since = state.Now
	}
	return state.Objects.Failed == 0 || state.Now.Sub(w.since) >= settleTime
}

// allReconciled returns true if at least the minimum number of objects exists, all are ready or
// have failed, and each is owned by an instance of this run. Objects of an earlier run may still be
// ready but owned by another shard.
func allReconciled(state view.State, minimum int) bool {
	owned := 0
	for _, instance := range state.Instances {
		owned += instance.Objects - instance.Draining
	}
	objects := state.Objects
	return objects.Total >= minimum && objects.Ready+objects.Failed == objects.Total && owned == objects.Total
}

// unready returns the names and phases of the first objects that are not ready.
func unready(objects []observer.Object) string {
	const limit = 5
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
	if more := len(names) - limit; more > 0 {
		names = append(names[:limit], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
