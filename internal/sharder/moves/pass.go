package moves

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

const (
	// attempts is how often a write is tried on an object that others write too.
	attempts = 5
	// writeTimeout bounds one write, so that a hanging one does not keep its slot. It leaves room for another webhook that
	// hangs for its default timeout of 10 s and may be ignored.
	writeTimeout = 15 * time.Second
	// refusedInARow is after how many failed writes of a kind without a successful one a pass stops writing that kind:
	// the rest would most likely fail for the same reason.
	refusedInARow = 20
	// fieldManager is the name under which the API server notes our writes.
	fieldManager = "sharder"
)

// pass is one run over objects of a ring, with one set of members.
type pass struct {
	*Mover
	*memory
	declared *catalog.Ring
	members  *ring.Ring
	began    time.Time
	// namespaces are those to list one by one; nil means the whole cluster.
	namespaces []string
	// collect makes children that should follow their owners be kept until those are released.
	collect bool

	// countsOwned makes objects with a live owner be counted.
	countsOwned bool
	// unlocatable has the kinds of controllers that could not be located, with the error.
	unlocatable sync.Map

	pages atomic.Int64 // how many were read
	wrote atomic.Bool  // whether anything was written
	// bypassed is whether an unlabelled object was found that the webhook should have assigned.
	bypassed atomic.Bool

	mu     sync.Mutex
	counts Counts
	kinds  map[schema.GroupResource]*kindResult
}

// kindResult is what a pass found out about a kind.
type kindResult struct {
	errs    []error // what kept it from being listed or decided about
	inARow  int     // failed writes since the last successful one
	refused int     // objects whose write failed for the first time
	untried int     // objects that should have been written, after too many failures
	first   error   // of the failed writes

	// After too many failures only some objects are tried: each time after one more of the others than before, stride, of
	// which left are still to come; of n objects that is the square root of 2n. The next pass begins with the first object that was not tried, stoppedAt; this one does so, too,
	// resumeAt, unless an object before it could be written.
	stride, left        int
	resumeAt, stoppedAt string
	started             bool
	// tried are the objects that were tried nevertheless. If one of them could be written, the next pass begins with the
	// one before it, healthyAfter: those in between may be fine as well.
	tried        []string
	healthyAfter string
}

func (m *Mover) newPass(known *memory, declared *catalog.Ring, members *ring.Ring) *pass {
	p := &pass{
		Mover: m, memory: known, declared: declared, members: members, began: m.Clock.Now(),
		kinds: map[schema.GroupResource]*kindResult{},
	}
	if m.Namespaces != nil {
		p.namespaces = m.Namespaces(declared)
	}
	return p
}

// each visits resources, all at once: one that fails or hangs does not hold up the others.
func (p *pass) each(resources []catalog.Resource, visit func(*catalog.Resource)) {
	var group sync.WaitGroup
	for i := range resources {
		group.Go(func() { visit(&resources[i]) })
	}
	group.Wait()
}

// rescue assigns the unassigned and orphaned objects of some resources, main resources first: a child that is taken from a
// dead shard follows its controller. If that shard comes back meanwhile, both stay.
func (p *pass) rescue(ctx context.Context, all []catalog.Resource) {
	for _, main := range []bool{true, false} {
		p.each(slices.DeleteFunc(slices.Clone(all), func(resource catalog.Resource) bool { return resource.Main() != main }),
			func(resource *catalog.Resource) {
				p.settle(ctx, resource, withoutOwner(resource, p.declared.Name, p.members))
			})
	}
}

// settle lists the selected objects of a resource and brings each to the right shard. What fails is noted.
func (p *pass) settle(ctx context.Context, resource *catalog.Resource, selected selection) {
	kind := resource.Resource.GroupResource()
	var group sync.WaitGroup
	defer group.Wait()
	err := p.list(ctx, resource, selected, func(o object, read *liveness) error {
		if p.refusals.backingOff(kind, o) {
			p.count(resource, o, o.Shard)
			return nil
		}
		if o.Shard == "" && resource.Main() && !o.generatedName && !p.refusals.knows(kind, o) {
			p.bypassed.Store(true)
		}
		decision := p.decide(ctx, resource, o, read)
		if decision.Action == assignment.Keep {
			p.count(resource, o, o.Shard)
			return nil
		}
		if p.tooManyRefused(kind, o) {
			p.count(resource, o, o.Shard)
			return nil
		}
		slots := p.writes
		if decision.Action == assignment.Drain {
			slots = p.drainWrites
		}
		if err := slots.take(ctx, p.slot(resource)); err != nil {
			return err
		}
		group.Go(func() {
			defer slots.free(p.slot(resource))
			shard := p.write(ctx, resource, o, decision)
			o.Draining = o.Draining && decision.Action != assignment.Undrain
			p.count(resource, o, shard)
		})
		return nil
	})
	p.fail(kind, err)
	if err == nil {
		group.Wait()
		p.endOfList(kind)
	}
}

// write carries a decision out and returns the shard that owns the object then. A failure is noted for a later retry.
func (p *pass) write(ctx context.Context, resource *catalog.Resource, o object, decision assignment.Decision) (shard string) {
	_, err := p.apply(ctx, resource, o, decision)
	switch {
	case ctx.Err() != nil: // it is not the object's fault
		return o.Shard
	case err != nil:
		p.refuse(resource, o, err)
		return o.Shard
	}
	p.accept(resource, o)
	if decision.Action == assignment.Assign || decision.Action == assignment.Move {
		return decision.Shard
	}
	return o.Shard
}

// retry writes an object again, if it is still the ring's.
func (p *pass) retry(ctx context.Context, known refusal) {
	kind := known.resource.Resource.GroupResource()
	resource := p.declared.Resource(kind)
	if resource == nil || resource.Kind.Namespaced && !p.Selects(p.declared, known.object.namespace) {
		p.refusals.forget(kind, known.object)
		return
	}
	decision := p.decide(ctx, resource, known.object, p.newLiveness())
	written, err := p.apply(ctx, resource, known.object, decision)
	switch err = errors.Join(err, p.kindErr(kind)); {
	case ctx.Err() != nil:
	case err != nil:
		p.refuse(resource, known.object, err)
	case written:
		p.accept(resource, known.object)
	default:
		p.refusals.forget(kind, known.object)
	}
}

// slot is what shares of slots are counted by.
func (p *pass) slot(resource *catalog.Resource) user {
	return user{ring: p.declared.Name, kind: resource.Resource.GroupResource()}
}

// apply carries a decision out and tells whether that took a write. When the object has been written by others
// meanwhile, it decides again, for this object alone.
func (p *pass) apply(ctx context.Context, resource *catalog.Resource, o object, decision assignment.Decision) (written bool, err error) {
	for range attempts {
		if decision.Action == assignment.Keep {
			return false, nil
		}
		err := p.patch(ctx, resource, o, decision)
		switch {
		case err == nil:
			p.wrote.Store(true)
			p.Report(p.declared.Name, resource.Resource.GroupResource(), decision.Action, p.Clock.Now().Sub(p.began))
			if decision.Action == assignment.Drain {
				p.drains.add(resource.Resource.GroupResource(), o.owner.Key(), o.Shard)
			}
			return true, nil
		case apierrors.IsNotFound(err):
			return false, nil // there is nothing left to assign
		case !apierrors.IsConflict(err):
			return false, fmt.Errorf("%s: %w", decision.Action, err)
		}
		fresh, err := p.read(ctx, resource, o.namespace, o.name)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("rereading the object: %w", err)
		}
		o = reduce(resource, p.declared.Name, fresh)
		decision = p.decide(ctx, resource, o, p.newLiveness())
	}
	return false, fmt.Errorf("%d conflicts in a row: other clients keep changing the object", attempts)
}

func (p *pass) patch(ctx context.Context, resource *catalog.Resource, o object, decision assignment.Decision) error {
	content, err := patch(p.declared.Name, o.version, decision)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = p.client(resource, o.namespace).Patch(ctx, o.name, types.MergePatchType, content, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// locateOwner finds the shard of a controller, as it is at this moment: the API server's cache may not know yet that it
// has moved, and a child would be sent back to where its controller was. After a failure, a pass does not ask about other
// controllers of that kind.
func (p *pass) locateOwner(ctx context.Context, kind schema.GroupResource, owner catalog.Owner) string {
	if err, failed := p.unlocatable.Load(owner.Kind); failed {
		p.fail(kind, err.(error))
		return ""
	}
	shard, err := p.locate(ctx, p.declared, owner, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		p.unlocatable.Store(owner.Kind, err)
		p.fail(kind, err)
	}
	return shard
}

// result returns what is known of a kind. The caller holds the mutex.
func (p *pass) result(kind schema.GroupResource) *kindResult {
	if p.kinds[kind] == nil {
		p.kinds[kind] = &kindResult{}
	}
	return p.kinds[kind]
}

// fail notes what kept a kind from being listed. A few errors are enough to know why.
func (p *pass) fail(kind schema.GroupResource, err error) {
	const enough = 3
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	result := p.result(kind)
	known := slices.ContainsFunc(result.errs, func(other error) bool { return other.Error() == err.Error() })
	if !known && len(result.errs) < enough {
		result.errs = append(result.errs, err)
	}
}

// refuse notes an object that could not be written.
func (p *pass) refuse(resource *catalog.Resource, o object, err error) {
	kind := resource.Resource.GroupResource()
	again := p.refusals.add(resource, o, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	result := p.result(kind)
	if !slices.Contains(result.tried, o.fullName()) {
		result.inARow++
	}
	if !again {
		result.refused++
	}
	if result.first == nil {
		result.first = fmt.Errorf("%s %s: %w", kind, o.fullName(), err)
	}
}

// accept notes an object that could be written.
func (p *pass) accept(resource *catalog.Resource, o object) {
	kind := resource.Resource.GroupResource()
	p.refusals.remove(kind, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	result := p.result(kind)
	result.inARow, result.stride, result.left, result.resumeAt = 0, 0, 0, ""
	if i := slices.Index(result.tried, o.fullName()); i > 0 && (result.healthyAfter == "" || result.tried[i-1] < result.healthyAfter) {
		result.healthyAfter = result.tried[i-1]
	}
}

// tooManyRefused tells whether to leave an object for a later pass because too many of its kind have failed in a row. Some
// are still tried, so that objects behind those that are refused are found.
func (p *pass) tooManyRefused(kind schema.GroupResource, o object) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	result := p.result(kind)
	if !result.started {
		result.started = true
		result.resumeAt, result.left = p.refusals.resumeAt(kind)
	}
	if result.inARow < refusedInARow && o.fullName() >= result.resumeAt {
		return false
	}
	if o.fullName() >= result.resumeAt && result.stoppedAt == "" {
		result.stoppedAt = o.fullName()
	}
	if result.left == 0 {
		result.stride++
		result.left = result.stride
		result.tried = append(result.tried, o.fullName())
		return false
	}
	result.left--
	result.untried++
	return true
}

// endOfList notes where the next pass has to go on with a kind.
func (p *pass) endOfList(kind schema.GroupResource) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if result := p.result(kind); result.started {
		p.refusals.resumeLater(kind, cmp.Or(result.healthyAfter, result.stoppedAt))
	}
}

// failed tells for each of some kinds whether it could not be listed.
func (p *pass) failed(resources []catalog.Resource) map[schema.GroupResource]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	failed := map[schema.GroupResource]bool{}
	for i := range resources {
		kind := resources[i].Resource.GroupResource()
		failed[kind] = p.kinds[kind] != nil && len(p.kinds[kind].errs) > 0
	}
	return failed
}

// kindErr is what kept a kind from being listed, or nil.
func (p *pass) kindErr(kind schema.GroupResource) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kinds[kind] == nil {
		return nil
	}
	return errors.Join(p.kinds[kind].errs...)
}

// err is all that went wrong.
func (p *pass) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	kinds := make([]schema.GroupResource, 0, len(p.kinds))
	for kind := range p.kinds {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	var errs []error
	for _, kind := range kinds {
		errs = append(append(errs, p.kinds[kind].errs...), p.kinds[kind].first)
	}
	return errors.Join(errs...)
}

// count notes where an object is now.
func (p *pass) count(resource *catalog.Resource, o object, shard string) {
	if shard == o.Shard && resource.Main() && o.Draining && p.members.Has(shard) {
		p.drains.add(resource.Resource.GroupResource(), o.owner.Key(), shard) // this sharder, another one, or this one before a restart asked for it
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.assignable && !p.members.Has(shard) {
		p.counts.addUnassigned(resource.Resource.GroupResource(), o.Shard == "")
	}
	if p.countsOwned || !p.members.Has(shard) {
		p.counts.add(resource.Resource.GroupResource(), shard)
	}
}
