package status

import (
	"context"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// leases reads the Leases of shards, sharders and leaders, in all namespaces or in those that the user may read.
func (r *Reader) leases(ctx context.Context, w *clusterState, rings []shardingv1alpha1.ControllerRing, namespace string) (*leases, error) {
	found := &leases{}
	err := r.leasesIn(ctx, metav1.NamespaceAll, found)
	if apierrors.IsForbidden(err) {
		for _, candidate := range leaseNamespaces(rings, namespace) {
			if r.leasesIn(ctx, candidate, found) == nil {
				w.readable = append(w.readable, candidate)
			}
		}
		if len(w.readable) > 0 {
			w.warn("only the Leases of the namespaces %s are shown: %v", prose.List(w.readable), err)
			err = nil
		}
	}
	found.leasesUnreadable = err != nil
	found.election, found.electionMissing = r.election(ctx)
	return found, err
}

// leaseNamespaces returns the namespaces that may have Leases of the rings.
func leaseNamespaces(rings []shardingv1alpha1.ControllerRing, namespace string) []string {
	var namespaces []string
	if namespace != "" {
		namespaces = append(namespaces, namespace)
	}
	for i := range rings {
		namespaces = append(namespaces, rings[i].AcceptedNamespaces()...)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

func (r *Reader) leasesIn(ctx context.Context, namespace string, found *leases) error {
	for label, to := range map[string]*[]coordinationv1.Lease{
		shardingv1alpha1.LabelControllerRing: &found.shards, shardingv1alpha1.LabelSharder: &found.sharders,
		shardingv1alpha1.LabelLeader: &found.leaders,
	} {
		options := metav1.ListOptions{LabelSelector: label, Limit: pageSize}
		for {
			page, err := r.core.CoordinationV1().Leases(namespace).List(ctx, options)
			if err != nil {
				return err
			}
			*to = append(*to, page.Items...)
			if options.Continue = page.Continue; options.Continue == "" {
				break
			}
		}
	}
	return nil
}

// election returns the Lease of the external sharder's election in its default namespace. It is nil if the sharder is
// in another namespace, or the user may not read it. missing is whether the Lease does not exist.
func (r *Reader) election(ctx context.Context) (found *coordinationv1.Lease, missing bool) {
	lease, err := r.core.CoordinationV1().Leases(shardingv1alpha1.NamespaceSystem).Get(ctx, "sharder", metav1.GetOptions{})
	if err != nil {
		return nil, apierrors.IsNotFound(err)
	}
	return lease, false
}

// rereadLeases reads the Leases again after the objects: the label of an object may name a shard that has joined
// meanwhile.
func (r *Reader) rereadLeases(ctx context.Context, w *clusterState) {
	found, namespaces := &leases{}, []string{metav1.NamespaceAll}
	if len(w.readable) > 0 {
		namespaces = w.readable
	}
	for _, namespace := range namespaces {
		if err := r.leasesIn(ctx, namespace, found); err != nil {
			return // keep the Leases that were read before
		}
	}
	for _, f := range w.rings {
		f.shards, f.sharders = nil, nil
		for _, current := range declarations(nil, found) {
			if f.name == current.name {
				f.shards, f.sharders = current.shards, current.sharders
			}
		}
	}
	for i, l := range w.leaders {
		for _, current := range found.leaders {
			if l.lease.Namespace == current.Namespace && l.lease.Name == current.Name {
				w.leaders[i].lease = &current
			}
		}
	}
}
