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
	// maxWaitForLeaving is how long a resync waits for a shard that is leaving.
	maxWaitForLeaving = time.Minute
	// followDrainsEvery is how often drains are polled while a resync still asks for more of them.
	followDrainsEvery = 500 * time.Millisecond
	// rescueWhileDraining is how often to look for released objects that the webhook did not assign.
	rescueWhileDraining = 5 * time.Second
	// rescueAfterRetry is when to rescue after an object could be written that could not before.
	rescueAfterRetry = time.Second
	// sweepAgainAfter is when to try again to sweep, after other rings were at it.
	sweepAgainAfter = time.Second
)

// run is the work on one ring.
type run struct {
	*Mover
	*memory
	name     string
	requests <-chan struct{}
	state    schedule.State
	// resyncRequested is whether all objects have to be listed, whatever has changed.
	resyncRequested atomic.Bool
	// balanced are the members over which the last resync distributed all objects, or nil.
	balanced *ring.Ring
	// idle is whether the last resync found nothing to write, and nothing has been written since.
	idle bool
	// following are children that are being moved after their owners, and objects that are being retried.
	following sync.WaitGroup
	// retried has a value when objects have been retried, and retryWrote is whether any could be written.
	retried    chan struct{}
	retryWrote atomic.Bool
	// rescuedAt is when released objects were looked for last.
	rescuedAt time.Time

	// counted is what the last passes found, and failing what kept kinds from being listed.
	counted Counts
	failing map[schema.GroupResource]error
	// unswept is what kept kinds from being swept.
	unswept map[schema.GroupResource]error
	// turn is the number of resyncs that listed only one controlled resource.
	turn int

	reportMu       sync.Mutex
	synced         bool
	lastUnassigned int
	lastErr        string
	drainsReported bool
	lastDrains     DrainReport
}

// errChanged ends a round when the members or the spec of its ring have changed.
var errChanged = errors.New("the ring has changed")

// round works with one set of members and one spec until either changes.
func (r *run) round(ctx context.Context) {
	members, changed := r.Members.Ring(r.name)
	declared := r.Rings.Get(r.name)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-changed: // nil, and so never, if the ring is not known
		case <-r.requests:
			r.resyncRequested.Store(true)
		case <-ctx.Done():
			return
		}
		cancel(errChanged)
	}()
	if members == nil || declared == nil || len(members.Shards()) == 0 {
		<-ctx.Done()
		return
	}
	defer r.following.Wait()
	r.restart(declared, members)
	for ctx.Err() == nil {
		r.state = r.state.WithRefused(r.refusals.next()).WithDrains(r.drains.len() > 0, r.Clock.Now())
		action, at := r.state.Next(r.Clock.Now())
		if r.sleepUntil(ctx, at) {
			r.do(ctx, action, declared, members)
		} else if ctx.Err() == nil {
			r.afterRetries()
		}
	}
}

// restart plans what a change of the ring needs.
func (r *run) restart(declared *catalog.Ring, members *ring.Ring) {
	now := r.Clock.Now()
	r.idle = false
	has := func(kind schema.GroupResource) bool { return declared.Resource(kind) != nil }
	gone := func(kind schema.GroupResource) bool { return !has(kind) }
	r.refusals.keepKinds(has)
	for _, errs := range []map[schema.GroupResource]error{r.failing, r.unswept} {
		maps.DeleteFunc(errs, func(kind schema.GroupResource, _ error) bool { return gone(kind) })
	}
	maps.DeleteFunc(r.counted.withoutOwner, func(kind schema.GroupResource, _ unassigned) bool { return gone(kind) })
	r.state = r.state.Forget(gone)
	if r.resyncRequested.Swap(false) {
		r.balanced = nil
		r.state = r.state.SuspectOutage(now) // the ring may select other objects than before
	}
	switch {
	case r.onlyDepartures(members):
		r.balanced = members // one that comes back finds its objects elsewhere
		r.state = r.state.Restart(now, r.SyncPeriod, schedule.Rescue)
	case members.AnyLeaving() && !r.anyCordoned(members):
		// A shard hands its objects over while it still works on them, and has little time for it. What merely should
		// move can wait for that, which is a change of members too.
		r.state = r.state.Restart(now, r.SyncPeriod, schedule.Rescue).ResyncBefore(now.Add(maxWaitForLeaving))
	default:
		r.state = r.state.Restart(now, r.SyncPeriod, schedule.Resync)
	}
}

// onlyDepartures tells whether since the last resync shards have left, and none has joined or was cordoned. Then only their
// objects can be with the wrong shard, unless some were on their way to them.
func (r *run) onlyDepartures(members *ring.Ring) bool {
	return r.balanced != nil && r.drains.len() == 0 && !r.anyCordoned(members) &&
		!slices.ContainsFunc(members.Shards(), func(shard string) bool { return !slices.Contains(r.balanced.Shards(), shard) })
}

// anyCordoned tells whether a shard was cordoned since the last resync, which has asked earlier ones for their objects.
func (r *run) anyCordoned(members *ring.Ring) bool {
	return slices.ContainsFunc(members.CordonedShards(), func(shard string) bool { return r.balanced == nil || !r.balanced.IsCordoned(shard) })
}

// sleepUntil returns true at a time, and false if ctx ends or objects have been retried before.
func (r *run) sleepUntil(ctx context.Context, t time.Time) bool {
	timer := r.Clock.NewTimer(max(0, t.Sub(r.Clock.Now())))
	defer timer.Stop()
	select {
	case <-timer.C():
		return ctx.Err() == nil
	case <-r.retried:
		return false
	case <-ctx.Done():
		return false
	}
}

// do carries an action out. If ctx ends meanwhile, it was not done, and there is a reason to begin again.
func (r *run) do(ctx context.Context, action schedule.Action, declared *catalog.Ring, members *ring.Ring) {
	switch action {
	case schedule.Resync:
		r.resync(ctx, declared, members)
	case schedule.RetryKinds:
		r.retryKinds(ctx, declared, members)
	case schedule.Rescue:
		r.rescue(ctx, declared, members)
	case schedule.Sweep:
		r.sweep(ctx, declared, members)
	case schedule.RetryObjects:
		r.retryObjects(ctx, declared, members)
	case schedule.PollDrains:
		r.pollOnce(ctx, declared, members)
	}
}

// resources are those of the ring that are wanted.
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

// resync lists all objects, but those of kinds whose backoff lasts.
func (r *run) resync(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	p := r.newPass(r.memory, declared, members)
	tried := r.ready(declared, p.began)
	complete, listed := len(tried) == len(declared.Resources), tried
	if complete && r.idle && r.drains.len() == 0 {
		listed = r.inTurn(declared)
	}
	r.balanced, r.idle = nil, false // until it is done
	r.children.clear(r.counted.owned(declared))
	r.listAll(ctx, p, tried, listed)
	if ctx.Err() != nil {
		return
	}
	now := r.Clock.Now()
	r.state = r.state.AfterResync(p.began, now).AfterList(p.failed(tried), now)
	if r.state.Swept() {
		r.suspectOutage(p, now)
	}
	r.noteResync(p, tried, listed)
	r.counted.Took = now.Sub(p.began)
	r.logFailures(ctx, p)
	r.reportDrains(declared, nil)
	r.report(true)
	if complete && p.err() == nil {
		r.balanced, r.idle = members, !p.wrote.Load()
	}
}

// retryKinds lists all objects of the kinds whose last list failed and whose backoff is over.
func (r *run) retryKinds(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	p := r.newPass(r.memory, declared, members)
	tried := slices.DeleteFunc(r.ready(declared, p.began), func(resource catalog.Resource) bool {
		return !r.state.Failed(resource.Resource.GroupResource())
	})
	r.listAll(ctx, p, tried, tried)
	if ctx.Err() != nil {
		return
	}
	r.idle = r.idle && !p.wrote.Load()
	r.state = r.state.AfterList(p.failed(tried), r.Clock.Now())
	r.noteResync(p, tried, tried)
	r.logFailures(ctx, p)
	r.report(false)
}

// listAll brings the objects of some resources to their shards, those without a live owner first, and those that have one
// for the listed resources only.
func (r *run) listAll(ctx context.Context, p *pass, tried, listed []catalog.Resource) {
	p.rescue(ctx, tried)
	p.collect, p.countsOwned = true, true
	failed := p.failed(tried)
	stop := r.followDrains(ctx, p.declared, p.members)
	p.each(listed, func(resource *catalog.Resource) {
		if !failed[resource.Resource.GroupResource()] { // it would fail again, or hang for as long
			p.settle(ctx, resource, withOwner(r.name, p.members))
		}
	})
	acknowledged := stop()
	p.moveChildren(ctx, slices.DeleteFunc(r.children.controllers(), func(key string) bool { return r.drains.shard(key) != "" }))
	if acknowledged && r.drains.len() == 0 && ctx.Err() == nil {
		r.following.Wait()
		r.followUp(ctx, p.declared, p.members)
	}
}

// ready are the resources of the ring whose last list did not fail, or whose backoff is over.
func (r *run) ready(declared *catalog.Ring, now time.Time) []catalog.Resource {
	return resources(declared, func(resource *catalog.Resource) bool {
		return !r.state.BackingOff(resource.Resource.GroupResource(), now)
	})
}

// followDrains polls the drains until it is stopped, so that released objects and children need not wait for the end of a
// long resync. It returns whether any drain was acknowledged.
func (r *run) followDrains(ctx context.Context, declared *catalog.Ring, members *ring.Ring) (stop func() (acknowledged bool)) {
	between, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	acknowledged := false
	group.Go(func() {
		rescued := r.Clock.Now()
		for r.sleepBetween(between, followDrainsEvery) {
			if r.drains.len() == 0 {
				continue
			}
			n, _ := r.pollDrains(ctx, declared, members) // an error shows in the next poll, too
			acknowledged = acknowledged || n > 0
			if acknowledged && r.Clock.Now().Sub(rescued) >= rescueWhileDraining {
				p := r.newPass(r.memory, declared, members)
				p.each(mainResources(declared), func(resource *catalog.Resource) { p.settle(ctx, resource, unlabelled(r.name)) })
				rescued = r.Clock.Now()
			}
		}
	})
	return func() bool {
		cancel()
		group.Wait()
		return acknowledged
	}
}

func (r *run) sleepBetween(ctx context.Context, pause time.Duration) bool {
	timer := r.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// inTurn returns the main resources and one of the controlled ones, another one each time. Controlled objects carry the
// label of their controllers, which are listed each time and take them along: a label of theirs is wrong only if somebody
// has changed it.
func (r *run) inTurn(declared *catalog.Ring) []catalog.Resource {
	all := resources(declared, controlled)
	if len(all) == 0 {
		return mainResources(declared)
	}
	chosen := all[r.turn%len(all)]
	r.turn++
	return append(mainResources(declared), chosen)
}

// rescue assigns unassigned and orphaned objects. Children are orphaned only by a change of the members; at other times
// their kinds, which others may have many objects of, are left to the resync: the API server looks at all of them.
func (r *run) rescue(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	p := r.newPass(r.memory, declared, members)
	tried := r.ready(declared, p.began)
	if !r.state.Settling() {
		tried = slices.DeleteFunc(tried, func(resource catalog.Resource) bool { return !resource.Main() })
	}
	p.rescue(ctx, tried)
	if ctx.Err() != nil {
		return
	}
	now := r.Clock.Now()
	r.rescuedAt = now
	r.state = r.state.AfterRescue(p.began, now)
	failed := onlyFailed(p.failed(tried)) // whether all of a kind can be listed again, a resync finds out
	r.state = r.state.AfterList(failed, now)
	r.suspectOutage(p, now)
	r.noteRescue(p, tried)
	r.idle = r.idle && len(failed) == 0 && !p.wrote.Load()
	r.logFailures(ctx, p)
	r.report(false)
}

func onlyFailed(kinds map[schema.GroupResource]bool) map[schema.GroupResource]bool {
	maps.DeleteFunc(kinds, func(_ schema.GroupResource, failed bool) bool { return !failed })
	return kinds
}

// suspectOutage sweeps soon if a pass found an object that the webhook should have assigned.
func (r *run) suspectOutage(p *pass, now time.Time) {
	if p.bypassed.Load() && !r.NoWebhook {
		r.state = r.state.SuspectOutage(now)
	}
}

// sweep assigns children that have no label. The webhook labels them when they are created, and so do shards that use
// the library; a sweep is for those that it missed.
func (r *run) sweep(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	if !r.sweeps.tryTake(user{ring: r.name}) {
		r.state = r.state.SweepAt(r.Clock.Now().Add(sweepAgainAfter))
		return
	}
	defer r.sweeps.free(user{ring: r.name})
	p := r.newPass(r.memory, declared, members)
	tried := slices.DeleteFunc(r.ready(declared, p.began), func(resource catalog.Resource) bool { return resource.Main() })
	p.each(tried, func(resource *catalog.Resource) { p.settle(ctx, resource, unlabelled(r.name)) })
	if ctx.Err() != nil {
		return
	}
	if complete := r.noteSweep(p, tried); complete {
		r.state = r.state.AfterSweep(r.Clock.Now(), int(p.pages.Load()), jitter(r.name))
	} else {
		r.state = r.state.AfterFailedSweep(r.Clock.Now())
	}
	r.logFailures(ctx, p)
	r.report(false)
}

// jitter returns a number from 0 to 1 that is constant for a ring.
func jitter(name string) float64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	return float64(hash.Sum32()) / math.MaxUint32
}

// retryObjects writes objects again whose last write failed. It waits neither for slots nor for the answers, which may not
// come: the other work on the ring goes on.
func (r *run) retryObjects(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	for _, known := range r.refusals.claim() {
		p := r.newPass(r.memory, declared, members) // its own, so that the failure of one is not taken for another's
		slot := p.slot(known.resource)
		if !p.writes.tryTake(slot) {
			continue // it comes again
		}
		r.following.Go(func() {
			defer p.writes.free(slot)
			p.retry(ctx, known)
			if p.wrote.Load() {
				r.retryWrote.Store(true)
			}
			select {
			case r.retried <- struct{}{}:
			default: // it is known already
			}
		})
	}
}

// afterRetries reports what came of retries.
func (r *run) afterRetries() {
	if r.retryWrote.Swap(false) { // what kept these from being written may be over for others, too
		r.idle = false
		r.state = r.state.RescueBefore(r.Clock.Now().Add(rescueAfterRetry))
	}
	r.report(false)
}

// pollOnce polls the drains once.
func (r *run) pollOnce(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	acknowledged, failed := r.pollDrains(ctx, declared, members)
	if ctx.Err() != nil {
		return
	}
	now := r.Clock.Now()
	r.state = r.state.AfterPoll(acknowledged > 0, r.drains.overdueAt(declared.Drain), now).AfterList(failed, now)
	if acknowledged == 0 {
		return
	}
	r.idle = false
	last := r.drains.len() == 0
	if last {
		r.following.Wait()
	}
	if last || now.Sub(r.rescuedAt) >= rescueWhileDraining {
		// A shard that does not know destinations leaves it to the webhook, which may be down.
		r.rescue(ctx, declared, members)
		if last {
			r.followUp(ctx, declared, members)
		}
	}
}

// followUp moves the remaining children to the owners of their controllers: children that were created
// during the drain, or exceeded rememberedChildren.
func (r *run) followUp(ctx context.Context, declared *catalog.Ring, members *ring.Ring) {
	p := r.newPass(r.memory, declared, members)
	tried := slices.DeleteFunc(r.ready(declared, p.began), func(resource catalog.Resource) bool { return resource.Main() })
	p.each(tried, func(resource *catalog.Resource) { p.settle(ctx, resource, withOwner(r.name, members)) })
	if ctx.Err() == nil {
		r.logFailures(ctx, p)
	}
}
