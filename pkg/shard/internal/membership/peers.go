package membership

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

const (
	// viewTTL is how long a list of the peers is reused: when a shard joins or leaves, many objects move
	// at once.
	viewTTL = time.Second
	// missingTTL is how long a list is reused that lacks the peer: it may have joined since.
	missingTTL = 200 * time.Millisecond
)

// Peers are the other shards of the ring, read from the Leases in the shard's namespace. A shard is a
// peer while it holds its Lease, so that all readers of the Leases get the same result without a clock.
type Peers struct {
	Lease *Lease

	mu   sync.Mutex
	view *view
}

// view is the result of one list of the Leases.
type view struct {
	at   time.Time
	ring *ring.Ring // of the peers that are not leaving
	// complete is false if a peer has its Lease in another namespace.
	complete bool
}

// list returns the peers. It reads the Leases unless the last view is younger than maxAge.
func (p *Peers) list(ctx context.Context, maxAge time.Duration) (*view, error) {
	if p.view != nil && time.Since(p.view.at) <= maxAge {
		return p.view, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.Lease.RequestTimeout())
	defer cancel()
	found, err := p.Lease.Client.Leases(p.Lease.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: shardingv1alpha1.LabelControllerRing + "=" + p.Lease.Ring,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the leases of the other shards: %w", err)
	}
	var peers []string
	complete := true
	for i := range found.Items {
		lease := &found.Items[i]
		if lease.Name == p.Lease.Name {
			_, elsewhere := lease.Annotations[shardingv1alpha1.AnnotationPeersElsewhere]
			complete = !elsewhere
			continue
		}
		_, leaving := lease.Annotations[shardingv1alpha1.AnnotationLeaving]
		if ptr.Deref(lease.Spec.HolderIdentity, "") == lease.Name && !leaving && len(lease.Name) <= shardingv1alpha1.MaxNameLength {
			peers = append(peers, lease.Name)
		}
	}
	if p.view == nil || !slices.Equal(p.view.ring.Shards(), slices.Sorted(slices.Values(peers))) {
		p.view = &view{ring: ring.New(peers)}
	}
	p.view = &view{at: time.Now(), ring: p.view.ring, complete: complete} // reuse the lookup table of an equal ring
	return p.view, nil
}

// Contains reports whether a shard is a peer that accepts objects. If the Leases cannot be read, it
// returns false: the webhook or the sharder then chooses the next owner.
func (p *Peers) Contains(ctx context.Context, shard string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, maxAge := range []time.Duration{viewTTL, missingTTL} {
		listed, err := p.list(ctx, maxAge)
		if err != nil {
			return false
		}
		if slices.Contains(listed.ring.Shards(), shard) {
			return true
		}
	}
	return false
}

// Next returns the peer that should own a key when this shard leaves. It is "" if not all peers are
// visible: then the webhook or the sharder chooses. ok is false without a peer.
func (p *Peers) Next(ctx context.Context, key string) (shard string, ok bool, err error) {
	p.mu.Lock()
	listed, err := p.list(ctx, viewTTL)
	p.mu.Unlock()
	switch {
	case err != nil:
		return "", false, err
	case !listed.complete:
		return "", true, nil
	case len(listed.ring.Shards()) == 0:
		return "", false, nil
	}
	return listed.ring.Owner(key), true, nil
}
