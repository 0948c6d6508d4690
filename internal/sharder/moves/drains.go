package moves

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// DrainReport is about the drains that shards have not acknowledged.
type DrainReport struct {
	Outstanding int
	// Oldest is when the first of them began, by this process's clock.
	Oldest time.Time
	// Shard owns that one.
	Shard string
	// Overdue are those that exceeded the ring's timeout.
	Overdue int
	// Ended are the durations of those that have ended since the last report.
	Ended []time.Duration
}

// drains are the objects that shards have been asked to release, by key.
type drains struct {
	clock clock.PassiveClock

	mu          sync.Mutex
	outstanding map[string]drain
}

type drain struct {
	kind  schema.GroupResource
	since time.Time
	shard string
}

func newDrains(passive clock.PassiveClock) *drains {
	return &drains{clock: passive, outstanding: map[string]drain{}}
}

func (d *drains) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.outstanding)
}

// add notes that a shard has been asked, if that is not known yet.
func (d *drains) add(kind schema.GroupResource, key, shard string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, found := d.outstanding[key]; !found || known.shard != shard {
		d.outstanding[key] = drain{kind: kind, since: d.clock.Now(), shard: shard}
	}
}

// shard returns the shard that has been asked to release an object, or "".
func (d *drains) shard(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.outstanding[key].shard
}

// end forgets all drains of the listed kinds but those that were seen, and those that began after the list was asked for. It
// returns the keys of the objects concerned, and how long their drains took.
func (d *drains) end(listed func(schema.GroupResource) bool, seen map[string]bool, asked time.Time) (keys []string, took []time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, known := range d.outstanding {
		if !seen[key] && listed(known.kind) && known.since.Before(asked) {
			delete(d.outstanding, key)
			keys = append(keys, key)
			took = append(took, d.clock.Now().Sub(known.since))
		}
	}
	return keys, took
}

// overdueAt is when the next drain exceeds its timeout, or zero.
func (d *drains) overdueAt(policy shardingv1alpha1.DrainPolicy) (at time.Time) {
	if policy.Timeout == nil || policy.Timeout.Duration <= 0 {
		return at
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range d.outstanding {
		if due := known.since.Add(policy.Timeout.Duration); due.After(d.clock.Now()) && (at.IsZero() || due.Before(at)) {
			at = due
		}
	}
	return at
}

func (d *drains) overdue(key string, policy shardingv1alpha1.DrainPolicy) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return overdue(d.outstanding[key], policy, d.clock.Now())
}

func overdue(known drain, policy shardingv1alpha1.DrainPolicy, now time.Time) bool {
	return policy.Timeout != nil && policy.Timeout.Duration > 0 && !now.Before(known.since.Add(policy.Timeout.Duration))
}

func (d *drains) report(policy shardingv1alpha1.DrainPolicy) DrainReport {
	d.mu.Lock()
	defer d.mu.Unlock()
	report := DrainReport{Outstanding: len(d.outstanding)}
	for _, known := range d.outstanding {
		if report.Oldest.IsZero() || known.since.Before(report.Oldest) {
			report.Oldest, report.Shard = known.since, known.shard
		}
		if overdue(known, policy, d.clock.Now()) {
			report.Overdue++
		}
	}
	return report
}

// pollDrains lists which objects are still being drained, moves the children of those that have been released, and does
// what the ring's policy says about drains that exceeded their timeout. Kinds that cannot be listed are left out: what was
// not seen may still be drained.
func (r *run) pollDrains(ctx context.Context, declared *catalog.Ring, members *ring.Ring) (acknowledged int, failed map[schema.GroupResource]bool) {
	p := r.newPass(r.memory, declared, members)
	asked := r.Clock.Now()
	listed := slices.DeleteFunc(r.ready(declared, asked), func(resource catalog.Resource) bool { return !resource.Main() })
	var mu sync.Mutex
	seen, overdue := map[string]bool{}, map[*catalog.Resource][]object{}
	p.each(listed, func(resource *catalog.Resource) {
		kind := resource.Resource.GroupResource()
		p.fail(kind, p.list(ctx, resource, draining(r.name), func(o object, _ *liveness) error {
			key := o.owner.Key()
			r.drains.add(kind, key, o.Shard)
			mu.Lock()
			defer mu.Unlock()
			seen[key] = true
			if declared.Drain.OnTimeout == shardingv1alpha1.DrainMove && r.drains.overdue(key, declared.Drain) && !r.refusals.backingOff(kind, o) {
				o.forced = true
				overdue[resource] = append(overdue[resource], o)
			}
			return nil
		}))
	})
	failed = p.failed(listed)
	released, took := r.drains.end(func(kind schema.GroupResource) bool {
		failedNow, tried := failed[kind]
		return tried && !failedNow
	}, seen, asked)
	r.reportDrains(declared, took)
	r.following.Go(func() { // the next released objects need not wait for these
		p.forceMoves(ctx, overdue)
		p.moveChildren(ctx, released)
		if ctx.Err() == nil {
			r.logFailures(ctx, p)
		}
	})
	return len(released), onlyFailed(failed)
}

// forceMoves reassigns objects whose drains exceeded their timeout.
func (p *pass) forceMoves(ctx context.Context, overdue map[*catalog.Resource][]object) {
	var group sync.WaitGroup
	defer group.Wait()
	for resource, objects := range overdue {
		kind := resource.Resource.GroupResource()
		for _, o := range objects {
			if p.tooManyRefused(kind, o) {
				continue
			}
			if p.writes.take(ctx, p.slot(resource)) != nil {
				return
			}
			group.Go(func() {
				defer p.writes.free(p.slot(resource))
				if to := p.write(ctx, resource, o, p.decide(ctx, resource, o, nil)); to != o.Shard {
					logf.FromContext(ctx).Info("Drain exceeded its timeout, reassigned the object",
						"resource", kind, "namespace", o.namespace, "name", o.name, "shard", o.Shard)
				}
			})
		}
	}
}

// reportDrains tells how many drains are outstanding, if that has changed.
func (r *run) reportDrains(declared *catalog.Ring, ended []time.Duration) {
	report := r.drains.report(declared.Drain)
	r.reportMu.Lock()
	changed := len(ended) > 0 || !r.drainsReported || report.Outstanding != r.lastDrains.Outstanding ||
		report.Overdue != r.lastDrains.Overdue || report.Shard != r.lastDrains.Shard
	r.drainsReported, r.lastDrains = true, report
	r.reportMu.Unlock()
	if changed {
		report.Ended = ended
		r.Drained(r.name, report)
	}
}
