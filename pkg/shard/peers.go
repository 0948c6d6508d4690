package shard

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

// peers are the other shards of the ring, as their Leases in the shard's namespace say. A member is who
// holds its Lease, so that everybody who reads the Leases comes to the same result without a clock.
type peers struct {
	lease *Lease

	mu   sync.Mutex
	last *ring.Ring
	at   time.Time
}

// list reads them.
func (p *peers) list(ctx context.Context) (*ring.Ring, error) {
	found, err := p.lease.Client.Leases(p.lease.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: shardingv1alpha1.LabelControllerRing + "=" + p.lease.Ring,
	})
	if err != nil {
		return nil, fmt.Errorf("looking for the other shards: %w", err)
	}
	var members, leaving []string
	for i := range found.Items {
		lease := &found.Items[i]
		switch _, leaves := lease.Annotations[shardingv1alpha1.AnnotationLeaving]; {
		case ptr.Deref(lease.Spec.HolderIdentity, "") != lease.Name, lease.Name == p.lease.Name, len(lease.Name) > shardingv1alpha1.MaxNameLength:
		case leaves:
			leaving = append(leaving, lease.Name)
		default:
			members = append(members, lease.Name)
		}
	}
	return ring.New(members, leaving...), nil
}

// has tells whether a shard is a member. It remembers what it has read for a moment: when a shard joins,
// many objects are asked for at once.
func (p *peers) has(ctx context.Context, shard string) bool {
	const yes, no = 2 * time.Second, 200 * time.Millisecond
	p.mu.Lock()
	defer p.mu.Unlock()
	age := time.Since(p.at)
	if p.last == nil || age > yes || age > no && !p.last.Has(shard) {
		listed, err := p.list(ctx)
		if err != nil {
			return false // who is to get the object is left to the webhook
		}
		p.last, p.at = listed, time.Now()
	}
	return p.last.Has(shard)
}
