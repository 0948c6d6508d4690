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

// logFailures tells operators what a pass could not do, in one line a kind. Objects that failed before are not mentioned
// again.
func (r *run) logFailures(ctx context.Context, p *pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := logf.FromContext(ctx)
	for kind, result := range p.kinds {
		if len(result.errs) > 0 {
			log.Error(errors.Join(result.errs...), "Could not list all objects of a resource, retrying with backoff", "resource", kind)
		}
		if result.refused > 0 {
			log.Error(result.first, "Could not write objects, retrying them with backoff", "resource", kind,
				"objects", result.refused, "notTried", result.untried)
		}
	}
}

// noteResync takes over what was found of the resources that were tried, and keeps what is known of the others. Of
// controlled resources, only a sweep lists unlabelled objects.
func (r *run) noteResync(p *pass, tried, listed []catalog.Resource) {
	for i := range p.declared.Resources {
		kind := p.declared.Resources[i].Resource.GroupResource()
		if !contains(listed, kind) {
			p.counts.keep(kind, r.counted, p.members.Has)
		}
	}
	before := r.counted
	r.counted = p.counts
	r.counted.withoutOwner = before.withoutOwner
	r.noteRescue(p, tried)
}

func contains(all []catalog.Resource, kind schema.GroupResource) bool {
	return slices.ContainsFunc(all, func(resource catalog.Resource) bool { return resource.Resource.GroupResource() == kind })
}

// noteRescue takes over what was found of objects without a live owner.
func (r *run) noteRescue(p *pass, tried []catalog.Resource) {
	for i := range tried {
		kind := tried[i].Resource.GroupResource()
		found := p.counts.withoutOwner[kind]
		if controlled(&tried[i]) {
			found.unlabelled = r.counted.withoutOwner[kind].unlabelled
		}
		r.counted.setUnassigned(kind, found)
	}
	r.noteErrors(p, tried)
}

// noteSweep takes over what a sweep found of unlabelled objects, and tells whether it has read all kinds.
func (r *run) noteSweep(p *pass, tried []catalog.Resource) (complete bool) {
	if r.unswept == nil {
		r.unswept = map[schema.GroupResource]error{}
	}
	complete = len(tried) == len(resources(p.declared, controlled))
	for i := range tried {
		kind := tried[i].Resource.GroupResource()
		if err := p.kindErr(kind); err != nil {
			r.unswept[kind], complete = err, false
			continue
		}
		delete(r.unswept, kind)
		r.counted.setUnassigned(kind, unassigned{
			orphaned: r.counted.withoutOwner[kind].orphaned, unlabelled: p.counts.withoutOwner[kind].unlabelled,
		})
	}
	return complete
}

func (r *run) noteErrors(p *pass, tried []catalog.Resource) {
	if r.failing == nil {
		r.failing = map[schema.GroupResource]error{}
	}
	for i := range tried {
		kind := tried[i].Resource.GroupResource()
		if err := p.kindErr(kind); err != nil {
			r.failing[kind] = err
		} else {
			delete(r.failing, kind)
		}
	}
}

// err is all that keeps objects from their shards.
func (r *run) err() error {
	refused := r.refusals.errs()
	kinds := map[schema.GroupResource]bool{}
	for _, errs := range []map[schema.GroupResource]error{refused, r.failing, r.unswept} {
		for kind := range errs {
			kinds[kind] = true
		}
	}
	var errs []error
	for _, kind := range slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }) {
		listing := r.failing[kind]
		if listing == nil {
			listing = r.unswept[kind]
		}
		errs = append(errs, listing, refused[kind])
	}
	return errors.Join(errs...)
}

// report tells what is known of the objects, after a resync and when it has changed. Before the first sweep not enough is
// known to say that all is well.
func (r *run) report(resynced bool) {
	if !r.state.Swept() {
		return
	}
	counts, err := r.counted, r.err()
	counts.Unassigned = 0
	for _, n := range counts.withoutOwner {
		counts.Unassigned += n.orphaned + n.unlabelled
	}
	if !resynced && r.synced {
		counts.Took = 0 // it has been reported
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if resynced || !r.synced || counts.Unassigned != r.lastUnassigned || text != r.lastErr {
		r.synced, r.lastUnassigned, r.lastErr = true, counts.Unassigned, text
		r.Synced(r.name, counts, err)
	}
}
