package moves

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// logFailures logs the errors of a pass, with one message for each kind. Objects that failed before do not count.
func (w *worker) logFailures(ctx context.Context, p *pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := logf.FromContext(ctx)
	for kind, result := range p.kinds {
		if len(result.errs) > 0 {
			log.Error(errors.Join(result.errs...), "Failed to list all objects of a resource, retrying with backoff", "resource", kind)
		}
		if result.failed > 0 {
			log.Error(result.first, "Failed to write objects, retrying them with backoff", "resource", kind,
				"objects", result.failed, "notTried", result.untried)
		}
	}
}

// recordResync records the results for the tried resources, and keeps those of the others. Only a sweep lists unlabelled
// objects of controlled resources.
func (w *worker) recordResync(p *pass, tried, listed []catalog.Resource) {
	for i := range p.declared.Resources {
		kind := p.declared.Resources[i].Resource.GroupResource()
		if !contains(listed, kind) {
			p.counts.keep(kind, w.counted, p.members.Has)
		}
	}
	before := w.counted
	w.counted = p.counts
	w.counted.withoutOwner = before.withoutOwner
	w.recordRescue(p, tried)
}

func contains(all []catalog.Resource, kind schema.GroupResource) bool {
	return slices.ContainsFunc(all, func(resource catalog.Resource) bool { return resource.Resource.GroupResource() == kind })
}

// recordRescue records the numbers of unassigned and orphaned objects.
func (w *worker) recordRescue(p *pass, tried []catalog.Resource) {
	for i := range tried {
		kind := tried[i].Resource.GroupResource()
		found := p.counts.withoutOwner[kind]
		if controlled(&tried[i]) {
			found.unlabelled = w.counted.withoutOwner[kind].unlabelled
		}
		w.counted.setUnassigned(kind, found)
	}
	w.recordErrors(p, tried)
}

// recordSweep records the numbers of unlabelled objects, and reports whether the sweep listed all kinds.
func (w *worker) recordSweep(p *pass, tried []catalog.Resource) (complete bool) {
	if w.sweepErrs == nil {
		w.sweepErrs = map[schema.GroupResource]error{}
	}
	complete = len(tried) == len(resources(p.declared, controlled))
	for i := range tried {
		kind := tried[i].Resource.GroupResource()
		if err := p.kindErr(kind); err != nil {
			w.sweepErrs[kind], complete = err, false
			continue
		}
		delete(w.sweepErrs, kind)
		w.counted.setUnassigned(kind, unassigned{
			orphaned: w.counted.withoutOwner[kind].orphaned, unlabelled: p.counts.withoutOwner[kind].unlabelled,
		})
	}
	return complete
}

func (w *worker) recordErrors(p *pass, tried []catalog.Resource) {
	if w.listErrs == nil {
		w.listErrs = map[schema.GroupResource]error{}
	}
	for i := range tried {
		kind := tried[i].Resource.GroupResource()
		if err := p.kindErr(kind); err != nil {
			w.listErrs[kind] = err
		} else {
			delete(w.listErrs, kind)
		}
	}
}

// err returns all errors that keep objects from being assigned.
func (w *worker) err() error {
	refused := w.failedWrites.errs()
	kinds := map[schema.GroupResource]bool{}
	for _, errs := range []map[schema.GroupResource]error{refused, w.listErrs, w.sweepErrs} {
		for kind := range errs {
			kinds[kind] = true
		}
	}
	var errs []error
	for _, kind := range slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }) {
		listing := w.listErrs[kind]
		if listing == nil {
			listing = w.sweepErrs[kind]
		}
		errs = append(errs, listing, refused[kind])
	}
	return errors.Join(errs...)
}

// report calls OnSynced after a resync and when the results have changed. It does not before the first sweep, because
// unlabelled children are not known until then.
func (w *worker) report(resynced bool) {
	if !w.state.Swept() {
		return
	}
	counts, err := w.counted, w.err()
	counts.Unassigned = 0
	for _, n := range counts.withoutOwner {
		counts.Unassigned += n.orphaned + n.unlabelled
	}
	if !resynced && w.synced {
		counts.Took = 0 // reported before
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if resynced || !w.synced || counts.Unassigned != w.lastUnassigned || text != w.lastErr {
		w.synced, w.lastUnassigned, w.lastErr = true, counts.Unassigned, text
		w.OnSynced(w.name, counts, err)
	}
}
