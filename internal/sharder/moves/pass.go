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
	// maxAttempts is the maximum number of writes of an object after conflicts.
	maxAttempts = 5
	// writeTimeout bounds one write, so that it releases its slot. It is longer than the default timeout of 10 s of
	// another webhook that hangs and may be ignored.
	writeTimeout = 15 * time.Second
	// maxFailuresInARow is the number of failed writes in a row after which a pass stops writing a kind: the rest would
	// most likely fail for the same reason.
	maxFailuresInARow = 20
	// fieldManager is the field manager of the sharder's writes.
	fieldManager = "sharder"
)

// pass lists and writes objects of a ring once, with one set of members.
type pass struct {
	*Mover
	*memory
	declared *catalog.Ring
	members  *ring.Ring
	began    time.Time
	// namespaces are listed one by one; nil means the whole cluster.
	namespaces []string
	// collect is whether to keep children that should move with their controllers until those are released.
	collect bool

	// countsOwned is whether to count objects with a live owner.
	countsOwned bool
	// unlocatable has the error for each kind of controllers that could not be located.
	unlocatable sync.Map

	pages atomic.Int64 // how many were read
	wrote atomic.Bool  // whether anything was written
	// bypassed is whether an unlabelled object was found that the webhook should have assigned.
	bypassed atomic.Bool

	mu     sync.Mutex
	counts Counts
	kinds  map[schema.GroupResource]*kindResult
}

// kindResult is the result of a pass for a kind.
type kindResult struct {
	errs    []error // of lists and decisions
	inARow  int     // failed writes since the last successful one
	failed  int     // objects whose write failed for the first time
	untried int     // objects that were skipped after too many failures
	first   error   // of the failed writes

	// After too many failures, only some objects are tried, with a stride that grows by one each time, of which left
	// objects are still to be skipped. Of n objects, this tries about the square root of 2n. The next pass resumes
	// at stoppedAt, the first skipped object. This pass resumes at resumeAt, unless a write before it succeeds.
	stride, left        int
	resumeAt, stoppedAt string
	started             bool
	// tried are the objects that were tried nevertheless. If the write of one succeeds, the next pass resumes at the
	// one before it, healthyAfter: the objects in between may succeed as well.
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

// each visits resources concurrently, so that one that fails or hangs does not delay the others.
func (p *pass) each(resources []catalog.Resource, visit func(*catalog.Resource)) {
	var group sync.WaitGroup
	for i := range resources {
		group.Go(func() { visit(&resources[i]) })
	}
	group.Wait()
}

// rescue assigns the unassigned and orphaned objects of some resources, main resources first, because an orphaned child
// follows its controller. If the dead shard returns meanwhile, both stay.
func (p *pass) rescue(ctx context.Context, all []catalog.Resource) {
	for _, main := range []bool{true, false} {
		p.each(slices.DeleteFunc(slices.Clone(all), func(resource catalog.Resource) bool { return resource.Main() != main }),
			func(resource *catalog.Resource) {
				p.reconcile(ctx, resource, withoutOwner(resource, p.declared.Name, p.members))
			})
	}
}

// reconcile lists the selected objects of a resource, and assigns, moves or drains them. It records failures.
func (p *pass) reconcile(ctx context.Context, resource *catalog.Resource, selected selection) {
	kind := resource.Resource.GroupResource()
	var group sync.WaitGroup
	defer group.Wait()
	err := p.list(ctx, resource, selected, func(o object, live *liveness) error {
		if p.failedWrites.backingOff(kind, o) {
			p.count(resource, o, o.Shard)
			return nil
		}
		if o.Shard == "" && resource.Main() && !o.generatedName && !p.failedWrites.has(kind, o) {
			p.bypassed.Store(true)
		}
		decision := p.decide(ctx, resource, o, live)
		if decision.Action == assignment.Keep {
			p.count(resource, o, o.Shard)
			return nil
		}
		if p.tooManyFailed(kind, o) {
			p.count(resource, o, o.Shard)
			return nil
		}
		slots := p.writes
		if decision.Action == assignment.Drain {
			slots = p.drainWrites
		}
		if err := slots.acquire(ctx, p.slot(resource)); err != nil {
			return err
		}
		group.Go(func() {
			defer slots.release(p.slot(resource))
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

// write applies a decision and returns the resulting owner of the object. It records a failure for a retry.
func (p *pass) write(ctx context.Context, resource *catalog.Resource, o object, decision assignment.Decision) (shard string) {
	_, err := p.apply(ctx, resource, o, decision)
	switch {
	case ctx.Err() != nil: // cancelled, not failed
		return o.Shard
	case err != nil:
		p.writeFailed(resource, o, err)
		return o.Shard
	}
	p.writeSucceeded(resource, o)
	if decision.Action == assignment.Assign || decision.Action == assignment.Move {
		return decision.Shard
	}
	return o.Shard
}

// retry writes an object again, if it is still in the ring.
func (p *pass) retry(ctx context.Context, known failedWrite) {
	kind := known.resource.Resource.GroupResource()
	resource := p.declared.Resource(kind)
	if resource == nil || resource.Kind.Namespaced && !p.Selects(p.declared, known.object.namespace) {
		p.failedWrites.forget(kind, known.object)
		return
	}
	decision := p.decide(ctx, resource, known.object, p.newLiveness())
	written, err := p.apply(ctx, resource, known.object, decision)
	switch err = errors.Join(err, p.kindErr(kind)); {
	case ctx.Err() != nil:
	case err != nil:
		p.writeFailed(resource, known.object, err)
	case written:
		p.writeSucceeded(resource, known.object)
	default:
		p.failedWrites.forget(kind, known.object)
	}
}

// slot returns the key of the slots for a resource.
func (p *pass) slot(resource *catalog.Resource) slotKey {
	return slotKey{ring: p.declared.Name, kind: resource.Resource.GroupResource()}
}

// apply applies a decision and reports whether it wrote the object. After a conflict, it reads the object and decides
// again.
func (p *pass) apply(ctx context.Context, resource *catalog.Resource, o object, decision assignment.Decision) (written bool, err error) {
	for range maxAttempts {
		if decision.Action == assignment.Keep {
			return false, nil
		}
		err := p.patch(ctx, resource, o, decision)
		switch {
		case err == nil:
			p.wrote.Store(true)
			p.OnWrite(p.declared.Name, resource.Resource.GroupResource(), decision.Action, p.Clock.Now().Sub(p.began))
			if decision.Action == assignment.Drain {
				p.drains.add(resource.Resource.GroupResource(), o.main.Key(), o.Shard)
			}
			return true, nil
		case apierrors.IsNotFound(err):
			return false, nil // it was deleted
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
	return false, fmt.Errorf("%d conflicts in a row: other clients keep changing the object", maxAttempts)
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

// locateController returns the current owner of a controller. It does not read from the watch cache, which could
// return the previous owner, to which the child would be moved back. After a failure, a pass does not try other
// controllers of that kind.
func (p *pass) locateController(ctx context.Context, kind schema.GroupResource, owner catalog.MainObject) string {
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

// result returns the result of a kind. The caller holds the mutex.
func (p *pass) result(kind schema.GroupResource) *kindResult {
	if p.kinds[kind] == nil {
		p.kinds[kind] = &kindResult{}
	}
	return p.kinds[kind]
}

// fail records an error of a kind. It keeps the first few different ones.
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

// writeFailed records an object that could not be written.
func (p *pass) writeFailed(resource *catalog.Resource, o object, err error) {
	kind := resource.Resource.GroupResource()
	repeated := p.failedWrites.add(resource, o, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	result := p.result(kind)
	if !slices.Contains(result.tried, o.fullName()) {
		result.inARow++
	}
	if !repeated {
		result.failed++
	}
	if result.first == nil {
		result.first = fmt.Errorf("%s %s: %w", kind, o.fullName(), err)
	}
}

// writeSucceeded records an object that was written.
func (p *pass) writeSucceeded(resource *catalog.Resource, o object) {
	kind := resource.Resource.GroupResource()
	p.failedWrites.remove(kind, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	result := p.result(kind)
	result.inARow, result.stride, result.left, result.resumeAt = 0, 0, 0, ""
	if i := slices.Index(result.tried, o.fullName()); i > 0 && (result.healthyAfter == "" || result.tried[i-1] < result.healthyAfter) {
		result.healthyAfter = result.tried[i-1]
	}
}

// tooManyFailed reports whether to skip an object because too many writes of its kind have failed in a row. Some are
// still tried, to find objects that can be written behind those that cannot.
func (p *pass) tooManyFailed(kind schema.GroupResource, o object) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	result := p.result(kind)
	if !result.started {
		result.started = true
		result.resumeAt, result.left = p.failedWrites.resumePoint(kind)
	}
	if result.inARow < maxFailuresInARow && o.fullName() >= result.resumeAt {
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

// endOfList records where the next pass resumes with a kind.
func (p *pass) endOfList(kind schema.GroupResource) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if result := p.result(kind); result.started {
		p.failedWrites.resumeLater(kind, cmp.Or(result.healthyAfter, result.stoppedAt))
	}
}

// failed reports for each of some kinds whether it could not be listed.
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

// kindErr returns the error of a kind, or nil.
func (p *pass) kindErr(kind schema.GroupResource) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kinds[kind] == nil {
		return nil
	}
	return errors.Join(p.kinds[kind].errs...)
}

// err returns all errors.
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

// count counts an object and records its drain.
func (p *pass) count(resource *catalog.Resource, o object, shard string) {
	if shard == o.Shard && resource.Main() && o.Draining && p.members.Has(shard) {
		p.drains.add(resource.Resource.GroupResource(), o.main.Key(), shard) // this sharder, an earlier one or another one drained it
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
