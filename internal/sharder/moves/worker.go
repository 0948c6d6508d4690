package moves

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/schedule"
)

const (
	// maxWaitForLeaving is the maximum delay of a resync while a shard is leaving.
	maxWaitForLeaving = time.Minute
	// followDrainsEvery is the time between two polls of the drains during a resync.
	followDrainsEvery = 500 * time.Millisecond
	// rescueWhileDraining is the time between two rescues of released objects that the webhook did not assign.
	rescueWhileDraining = 5 * time.Second
	// rescueAfterRetry is the delay of a rescue after a retry of an object succeeded.
	rescueAfterRetry = time.Second
	// retrySweepAfter is the delay of a sweep while other rings sweep.
	retrySweepAfter = time.Second
)

// worker moves the objects of one ring.
type worker struct {
	*Mover
	*memory
	name     string
	requests <-chan struct{}
	state    schedule.State
	// resyncRequested is whether the next round must begin with a resync.
	resyncRequested atomic.Bool
	// resyncedMembers are the members over which the last resync distributed all objects, or nil if it was not complete.
	resyncedMembers *ring.Ring
	// idle is whether the last resync found nothing to write, and nothing has been written since.
	idle bool
	// background has the goroutines that move children after their controllers, and those that retry objects.
	background sync.WaitGroup
	// retried has a value when objects have been retried, and retryWrote is whether any could be written.
	retried    chan struct{}
	retryWrote atomic.Bool
	// rescuedAt is the time of the last rescue.
	rescuedAt time.Time

	// counted are the results of the last passes, listErrs the errors of kinds that could not be listed.
	counted  Counts
	listErrs map[schema.GroupResource]error
	// sweepErrs are the errors of kinds that could not be swept.
	sweepErrs map[schema.GroupResource]error
	// rotation is the number of resyncs that listed only one controlled resource.
	rotation int

	reportMu       sync.Mutex
	synced         bool
	lastUnassigned int
	lastErr        string
	drainsReported bool
	lastDrains     DrainReport
}

// errChanged cancels a round when the members or the spec of its ring have changed.
var errChanged = errors.New("the ring has changed")

// round moves objects with one set of members and one spec until either changes.
func (w *worker) round(ctx context.Context) {
	members, changed := w.Members.Ring(w.name)
	declared := w.Rings.Get(w.name)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-changed: // nil if the ring is not known
		case <-w.requests:
			w.resyncRequested.Store(true)
		case <-ctx.Done():
			return
		}
		cancel(errChanged)
	}()
	if members == nil || declared == nil || len(members.Shards()) == 0 {
		<-ctx.Done()
		return
	}
	defer w.background.Wait()
	w.restart(declared, members)
	for ctx.Err() == nil {
		w.state = w.state.WithRetryObjects(w.failedWrites.next()).WithDrains(w.drains.len() > 0, w.Clock.Now())
		action, at := w.state.Next(w.Clock.Now())
		if w.sleepUntil(ctx, at) {
			w.do(ctx, action, declared, members)
		} else if ctx.Err() == nil {
			w.afterRetries()
		}
	}
}

// restart schedules the actions that a change of the ring needs.
func (w *worker) restart(declared *catalog.Ring, members *ring.Ring) {
	now := w.Clock.Now()
	w.idle = false
	has := func(kind schema.GroupResource) bool { return declared.Resource(kind) != nil }
	gone := func(kind schema.GroupResource) bool { return !has(kind) }
	w.failedWrites.keepKinds(has)
	for _, errs := range []map[schema.GroupResource]error{w.listErrs, w.sweepErrs} {
		maps.DeleteFunc(errs, func(kind schema.GroupResource, _ error) bool { return gone(kind) })
	}
	maps.DeleteFunc(w.counted.withoutOwner, func(kind schema.GroupResource, _ unassigned) bool { return gone(kind) })
	w.state = w.state.Forget(gone)
	if w.resyncRequested.Swap(false) {
		w.resyncedMembers = nil
		w.state = w.state.SuspectOutage(now) // the ring may select other objects than before
	}
	switch {
	case w.onlyDepartures(members):
		w.resyncedMembers = members // a shard that returns finds its objects elsewhere
		w.state = w.state.Restart(now, w.SyncPeriod, schedule.Rescue)
	case members.AnyLeaving() && !w.anyCordoned(members):
		// The handover of a leaving shard comes first, because its time is limited. The end of the handover is a
		// change of the members, which causes the resync.
		w.state = w.state.Restart(now, w.SyncPeriod, schedule.Rescue).ResyncBefore(now.Add(maxWaitForLeaving))
	default:
		w.state = w.state.Restart(now, w.SyncPeriod, schedule.Resync)
	}
}

// onlyDepartures reports whether shards have left since the last resync, and none has joined or was cordoned. Then
// only objects of those shards can have the wrong owner, unless some were being drained to them.
func (w *worker) onlyDepartures(members *ring.Ring) bool {
	return w.resyncedMembers != nil && w.drains.len() == 0 && !w.anyCordoned(members) &&
		!slices.ContainsFunc(members.Shards(), func(shard string) bool { return !slices.Contains(w.resyncedMembers.Shards(), shard) })
}

// anyCordoned reports whether a shard was cordoned since the last resync, which has drained those cordoned before.
func (w *worker) anyCordoned(members *ring.Ring) bool {
	return slices.ContainsFunc(members.CordonedShards(), func(shard string) bool { return w.resyncedMembers == nil || !w.resyncedMembers.IsCordoned(shard) })
}

// sleepUntil returns true at the time, and false if ctx ends or an object has been retried before.
func (w *worker) sleepUntil(ctx context.Context, t time.Time) bool {
	timer := w.Clock.NewTimer(max(0, t.Sub(w.Clock.Now())))
	defer timer.Stop()
	select {
	case <-timer.C():
		return ctx.Err() == nil
	case <-w.retried:
		return false
	case <-ctx.Done():
		return false
	}
}

// do runs an action. If ctx ends meanwhile, the action is incomplete, and the next round repeats it.
func (w *worker) do(ctx context.Context, action schedule.Action, declared *catalog.Ring, members *ring.Ring) {
	switch action {
	case schedule.Resync:
		w.resync(ctx, declared, members)
	case schedule.RetryKinds:
		w.retryKinds(ctx, declared, members)
	case schedule.Rescue:
		w.rescue(ctx, declared, members)
	case schedule.Sweep:
		w.sweep(ctx, declared, members)
	case schedule.RetryObjects:
		w.retryObjects(ctx, declared, members)
	case schedule.PollDrains:
		w.pollOnce(ctx, declared, members)
	}
}

// resources returns the resources of the ring for which wanted returns true.
func resources(declared *catalog.Ring, wanted func(*catalog.Resource) bool) []catalog.Resource {
	var found []catalog.Resource
	for i := range declared.Resources {
		if wanted(&declared.Resources[i]) {
			found = append(found, declared.Resources[i])
		}
	}
	return found
}

func mainResources(declared *catalog.Ring) []catalog.Resource {
	return resources(declared, (*catalog.Resource).Main)
}

func controlled(resource *catalog.Resource) bool { return !resource.Main() }

// resync lists all objects, except those of kinds that are backing off.
func (w *worker) resync(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	p := w.newPass(w.memory, declared, members)
	tried := w.ready(declared, p.began)
	complete, listed := len(tried) == len(declared.Resources), tried
	if complete && w.idle && w.drains.len() == 0 {
		listed = w.mainAndNextControlled(declared)
	}
	w.resyncedMembers, w.idle = nil, false // until the resync is complete
	w.children.clear(w.counted.owned(declared))
	w.listAll(ctx, p, tried, listed)
	if ctx.Err() != nil {
		return
	}
	now := w.Clock.Now()
	w.state = w.state.AfterResync(p.began, now).AfterList(p.failed(tried), now)
	if w.state.Swept() {
		w.suspectOutage(p, now)
	}
	w.recordResync(p, tried, listed)
	w.counted.Took = now.Sub(p.began)
	w.logFailures(ctx, p)
	w.reportDrains(declared, nil)
	w.report(true)
	if complete && p.err() == nil {
		w.resyncedMembers, w.idle = members, !p.wrote.Load()
	}
}

// retryKinds lists all objects of the kinds whose last list failed and whose backoff is over.
func (w *worker) retryKinds(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	p := w.newPass(w.memory, declared, members)
	tried := slices.DeleteFunc(w.ready(declared, p.began), func(resource catalog.Resource) bool {
		return !w.state.Failed(resource.Resource.GroupResource())
	})
	w.listAll(ctx, p, tried, tried)
	if ctx.Err() != nil {
		return
	}
	w.idle = w.idle && !p.wrote.Load()
	w.state = w.state.AfterList(p.failed(tried), w.Clock.Now())
	w.recordResync(p, tried, tried)
	w.logFailures(ctx, p)
	w.report(false)
}

// listAll reconciles the objects of some resources: first the unassigned and orphaned ones of all tried resources,
// then the others of the listed ones.
func (w *worker) listAll(ctx context.Context, p *pass, tried, listed []catalog.Resource) {
	p.rescue(ctx, tried)
	p.collect, p.countsOwned = true, true
	failed := p.failed(tried)
	stop := w.followDrains(ctx, p.declared, p.members)
	p.each(listed, func(resource *catalog.Resource) {
		if !failed[resource.Resource.GroupResource()] { // it would fail again, or hang for as long
			p.reconcile(ctx, resource, withOwner(w.name, p.members))
		}
	})
	acknowledged := stop()
	p.moveChildren(ctx, slices.DeleteFunc(w.children.controllers(), func(key string) bool { return w.drains.shard(key) != "" }))
	if acknowledged && w.drains.len() == 0 && ctx.Err() == nil {
		w.background.Wait()
		w.followUp(ctx, p.declared, p.members)
	}
}

// ready returns the resources that are not backing off after a failed list.
func (w *worker) ready(declared *catalog.Ring, now time.Time) []catalog.Resource {
	return resources(declared, func(resource *catalog.Resource) bool {
		return !w.state.BackingOff(resource.Resource.GroupResource(), now)
	})
}

// followDrains polls the drains until it is stopped, so that released objects and their children do not wait for the
// end of a long resync. stop returns whether any drain was acknowledged.
func (w *worker) followDrains(ctx context.Context, declared *catalog.Ring, members *ring.Ring) (stop func() (acknowledged bool)) {
	between, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	acknowledged := false
	group.Go(func() {
		rescued := w.Clock.Now()
		for w.sleep(between, followDrainsEvery) {
			if w.drains.len() == 0 {
				continue
			}
			n, _ := w.pollDrains(ctx, declared, members) // the next poll reports an error as well
			acknowledged = acknowledged || n > 0
			if acknowledged && w.Clock.Now().Sub(rescued) >= rescueWhileDraining {
				p := w.newPass(w.memory, declared, members)
				p.each(mainResources(declared), func(resource *catalog.Resource) { p.reconcile(ctx, resource, unlabelled(w.name)) })
				rescued = w.Clock.Now()
			}
		}
	})
	return func() bool {
		cancel()
		group.Wait()
		return acknowledged
	}
}

func (w *worker) sleep(ctx context.Context, pause time.Duration) bool {
	timer := w.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// mainAndNextControlled returns the main resources and one controlled resource, in rotation. Controlled objects move
// with their controllers, which are listed each time, so their labels are wrong only if another client changed them.
func (w *worker) mainAndNextControlled(declared *catalog.Ring) []catalog.Resource {
	all := resources(declared, controlled)
	if len(all) == 0 {
		return mainResources(declared)
	}
	chosen := all[w.rotation%len(all)]
	w.rotation++
	return append(mainResources(declared), chosen)
}

// rescue assigns unassigned and orphaned objects. Only a change of the members orphans children. At other times their
// kinds are left to the resync, because the API server scans all objects of a kind, which can be many.
func (w *worker) rescue(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	p := w.newPass(w.memory, declared, members)
	tried := w.ready(declared, p.began)
	if !w.state.FollowUpsPending() {
		tried = slices.DeleteFunc(tried, func(resource catalog.Resource) bool { return !resource.Main() })
	}
	p.rescue(ctx, tried)
	if ctx.Err() != nil {
		return
	}
	now := w.Clock.Now()
	w.rescuedAt = now
	w.state = w.state.AfterRescue(p.began, now)
	failed := onlyFailed(p.failed(tried)) // only a resync can show that all objects of a kind can be listed again
	w.state = w.state.AfterList(failed, now)
	w.suspectOutage(p, now)
	w.recordRescue(p, tried)
	w.idle = w.idle && len(failed) == 0 && !p.wrote.Load()
	w.logFailures(ctx, p)
	w.report(false)
}

func onlyFailed(kinds map[schema.GroupResource]bool) map[schema.GroupResource]bool {
	maps.DeleteFunc(kinds, func(_ schema.GroupResource, failed bool) bool { return !failed })
	return kinds
}

// suspectOutage schedules a sweep if a pass found an object that the webhook should have assigned.
func (w *worker) suspectOutage(p *pass, now time.Time) {
	if p.bypassed.Load() && !w.NoWebhook {
		w.state = w.state.SuspectOutage(now)
	}
}

// sweep assigns children without a label. The webhook, or a shard that uses the library, labels them when they are
// created; a sweep finds those that were missed.
func (w *worker) sweep(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	if !w.sweeps.tryAcquire(slotKey{ring: w.name}) {
		w.state = w.state.SweepAt(w.Clock.Now().Add(retrySweepAfter))
		return
	}
	defer w.sweeps.release(slotKey{ring: w.name})
	p := w.newPass(w.memory, declared, members)
	tried := slices.DeleteFunc(w.ready(declared, p.began), func(resource catalog.Resource) bool { return resource.Main() })
	p.each(tried, func(resource *catalog.Resource) { p.reconcile(ctx, resource, unlabelled(w.name)) })
	if ctx.Err() != nil {
		return
	}
	if complete := w.recordSweep(p, tried); complete {
		w.state = w.state.AfterSweep(w.Clock.Now(), int(p.pages.Load()), jitter(w.name))
	} else {
		w.state = w.state.AfterFailedSweep(w.Clock.Now())
	}
	w.logFailures(ctx, p)
	w.report(false)
}

// jitter returns a number from 0 to 1 that is constant for a ring.
func jitter(name string) float64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	return float64(hash.Sum32()) / math.MaxUint32
}

// retryObjects retries objects whose last write failed. It waits neither for slots nor for responses, so that writes
// that hang do not block other work on the ring.
func (w *worker) retryObjects(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	for _, known := range w.failedWrites.claim() {
		p := w.newPass(w.memory, declared, members) // one pass for each object, to keep their errors apart
		slot := p.slot(known.resource)
		if !p.writes.tryAcquire(slot) {
			continue // it is due again later
		}
		w.background.Go(func() {
			defer p.writes.release(slot)
			p.retry(ctx, known)
			if p.wrote.Load() {
				w.retryWrote.Store(true)
			}
			select {
			case w.retried <- struct{}{}:
			default: // the worker has not handled an earlier value yet
			}
		})
	}
}

// afterRetries reports the results of retries.
func (w *worker) afterRetries() {
	if w.retryWrote.Swap(false) { // the cause may be gone for other objects as well
		w.idle = false
		w.state = w.state.RescueBefore(w.Clock.Now().Add(rescueAfterRetry))
	}
	w.report(false)
}

// pollOnce polls the drains once.
func (w *worker) pollOnce(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	acknowledged, failed := w.pollDrains(ctx, declared, members)
	if ctx.Err() != nil {
		return
	}
	now := w.Clock.Now()
	w.state = w.state.AfterPoll(acknowledged > 0, w.drains.overdueAt(declared.Drain), now).AfterList(failed, now)
	if acknowledged == 0 {
		return
	}
	w.idle = false
	last := w.drains.len() == 0
	if last {
		w.background.Wait()
	}
	if last || now.Sub(w.rescuedAt) >= rescueWhileDraining {
		// A shard that ignores destinations leaves the assignment to the webhook, which may be down.
		w.rescue(ctx, declared, members)
		if last {
			w.followUp(ctx, declared, members)
		}
	}
}

// followUp moves the remaining children to the owners of their controllers: children that were created during the
// drain, or exceeded maxPendingChildren.
func (w *worker) followUp(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	p := w.newPass(w.memory, declared, members)
	tried := slices.DeleteFunc(w.ready(declared, p.began), func(resource catalog.Resource) bool { return resource.Main() })
	p.each(tried, func(resource *catalog.Resource) { p.reconcile(ctx, resource, withOwner(w.name, members)) })
	if ctx.Err() == nil {
		w.logFailures(ctx, p)
	}
}
