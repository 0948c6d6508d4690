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

// DrainReport reports the drains that shards have not acknowledged.
type DrainReport struct {
	Outstanding int
	// Oldest is when this process first observed the oldest of them.
	Oldest time.Time
	// Shard is the owner of that object.
	Shard string
	// Overdue is the number of drains that exceeded the ring's timeout.
	Overdue int
	// Ended are the durations of the drains that have ended since the last report.
	Ended []time.Duration
}

// drains tracks the outstanding drains by the key of their objects.
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

// add adds a drain, unless it is known already.
func (d *drains) add(kind schema.GroupResource, key, shard string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, found := d.outstanding[key]; !found || known.shard != shard {
		d.outstanding[key] = drain{kind: kind, since: d.clock.Now(), shard: shard}
	}
}

// shard returns the shard from which an object is being drained, or "".
func (d *drains) shard(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.outstanding[key].shard
}

// end removes the drains of the listed kinds, except those that were seen and those that began after the list. It
// returns the keys of the objects, and the durations of their drains.
func (d *drains) end(listed func(schema.GroupResource) bool, seen map[string]bool, listedAt time.Time) (keys []string, took []time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, known := range d.outstanding {
		if !seen[key] && listed(known.kind) && known.since.Before(listedAt) {
			delete(d.outstanding, key)
			keys = append(keys, key)
			took = append(took, d.clock.Now().Sub(known.since))
		}
	}
	return keys, took
}

// overdueAt returns when the next drain exceeds its timeout, or zero.
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

// pollDrains lists the objects that are still being drained, moves the children of released ones, and applies the
// ring's policy to drains that exceeded their timeout. It skips kinds that cannot be listed, because an object that
// was not seen may still be draining.
func (w *worker) pollDrains(ctx context.Context, declared *catalog.Ring, members *ring.Ring) (acknowledged int, failed map[schema.GroupResource]bool) {
	p := w.newPass(w.memory, declared, members)
	listedAt := w.Clock.Now()
	listed := slices.DeleteFunc(w.ready(declared, listedAt), func(resource catalog.Resource) bool { return !resource.Main() })
	var mu sync.Mutex
	seen, overdue := map[string]bool{}, map[*catalog.Resource][]object{}
	p.each(listed, func(resource *catalog.Resource) {
		kind := resource.Resource.GroupResource()
		p.fail(kind, p.list(ctx, resource, draining(w.name), func(o object, _ *liveness) error {
			key := o.main.Key()
			w.drains.add(kind, key, o.Shard)
			mu.Lock()
			defer mu.Unlock()
			seen[key] = true
			if declared.Drain.OnTimeout == shardingv1alpha1.DrainMove && w.drains.overdue(key, declared.Drain) && !w.failedWrites.backingOff(kind, o) {
				o.forced = true
				overdue[resource] = append(overdue[resource], o)
			}
			return nil
		}))
	})
	failed = p.failed(listed)
	released, took := w.drains.end(func(kind schema.GroupResource) bool {
		failedNow, tried := failed[kind]
		return tried && !failedNow
	}, seen, listedAt)
	w.reportDrains(declared, took)
	w.background.Go(func() { // so that other released objects do not wait for these
		p.forceMoves(ctx, overdue)
		p.moveChildren(ctx, released)
		if ctx.Err() == nil {
			w.logFailures(ctx, p)
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
			if p.tooManyFailed(kind, o) {
				continue
			}
			if p.writes.acquire(ctx, p.slot(resource)) != nil {
				return
			}
			group.Go(func() {
				defer p.writes.release(p.slot(resource))
				if to := p.write(ctx, resource, o, p.decide(ctx, resource, o, nil)); to != o.Shard {
					logf.FromContext(ctx).Info("Drain exceeded its timeout, reassigned the object",
						"resource", kind, "namespace", o.namespace, "name", o.name, "shard", o.Shard)
				}
			})
		}
	}
}

// reportDrains calls OnDrained if the outstanding drains have changed.
func (w *worker) reportDrains(declared *catalog.Ring, ended []time.Duration) {
	report := w.drains.report(declared.Drain)
	w.reportMu.Lock()
	changed := len(ended) > 0 || !w.drainsReported || report.Outstanding != w.lastDrains.Outstanding ||
		report.Overdue != w.lastDrains.Overdue || report.Shard != w.lastDrains.Shard
	w.drainsReported, w.lastDrains = true, report
	w.reportMu.Unlock()
	if changed {
		report.Ended = ended
		w.OnDrained(w.name, report)
	}
}
