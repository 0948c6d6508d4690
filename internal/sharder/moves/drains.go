package moves

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// DrainReport says how many objects shards have been asked to let go and have not.
type DrainReport struct {
	Outstanding int
	// Oldest is since when the first of them is waited for, by this process's clock.
	Oldest time.Time
	// Shard is who has that one.
	Shard string
	// Overdue are those that are waited for longer than the ring's timeout.
	Overdue int
	// Ended are how long those were waited for that are over since the last report.
	Ended []time.Duration
}

// drains are the objects that shards have been asked to let go, by key.
type drains struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	waiting map[string]drain
}

type drain struct {
	since time.Time
	shard string
}

func newDrains(passive clock.PassiveClock) *drains {
	return &drains{clock: passive, waiting: map[string]drain{}}
}

func (d *drains) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting)
}

// add notes that a shard has been asked, if that is not known yet.
func (d *drains) add(key, shard string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, found := d.waiting[key]; !found || known.shard != shard {
		d.waiting[key] = drain{since: d.clock.Now(), shard: shard}
	}
}

// shard returns who has been asked to let an object go, or "".
func (d *drains) shard(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting[key].shard
}

// keepOnly forgets all but the given ones and tells how long those were waited for.
func (d *drains) keepOnly(seen map[string]bool) (gone []time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, waiting := range d.waiting {
		if !seen[key] {
			delete(d.waiting, key)
			gone = append(gone, d.clock.Now().Sub(waiting.since))
		}
	}
	return gone
}

func (d *drains) overdue(key string, policy shardingv1alpha1.DrainPolicy) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return overdue(d.waiting[key], policy, d.clock.Now())
}

func overdue(waiting drain, policy shardingv1alpha1.DrainPolicy, now time.Time) bool {
	return policy.Timeout != nil && policy.Timeout.Duration > 0 && !now.Before(waiting.since.Add(policy.Timeout.Duration))
}

func (d *drains) report(policy shardingv1alpha1.DrainPolicy) DrainReport {
	d.mu.Lock()
	defer d.mu.Unlock()
	report := DrainReport{Outstanding: len(d.waiting)}
	for _, waiting := range d.waiting {
		if report.Oldest.IsZero() || waiting.since.Before(report.Oldest) {
			report.Oldest, report.Shard = waiting.since, waiting.shard
		}
		if overdue(waiting, policy, d.clock.Now()) {
			report.Overdue++
		}
	}
	return report
}

// pollDrains looks which objects have been let go, and does what the ring's policy says about those
// that are overdue. It tells whether any were let go.
func (r *run) pollDrains(ctx context.Context, declared *catalog.Ring, members *ring.Ring) (gone bool) {
	p := r.newPass(declared, members)
	var mu sync.Mutex
	seen := map[string]bool{}
	err := p.resources(main, func(resource *catalog.Resource) error {
		return p.list(ctx, resource, beingDrained(r.name), func(o object, _ *witness) error {
			key := o.owner.Key()
			mu.Lock()
			seen[key] = true
			mu.Unlock()
			r.drains.add(key, o.Shard)
			if declared.Drain.OnTimeout == shardingv1alpha1.DrainMove && r.drains.overdue(key, declared.Drain) {
				logf.FromContext(ctx).Info("A shard did not let an object go in time, giving it to the next one",
					"resource", resource.Resource.GroupResource(), "namespace", o.namespace, "name", o.name, "shard", o.Shard)
				return p.apply(ctx, resource, o, assignment.Decision{Action: assignment.Assign, Shard: members.Owner(key)})
			}
			return nil
		})
	})
	if err = errors.Join(append(p.errs, err)...); err != nil {
		if ctx.Err() == nil {
			logf.FromContext(ctx).Error(err, "looking which objects have been let go, trying again")
		}
		return false
	}
	ended := r.drains.keepOnly(seen)
	report := r.drains.report(declared.Drain)
	report.Ended = ended
	r.Drained(r.name, report)
	return len(ended) > 0
}
