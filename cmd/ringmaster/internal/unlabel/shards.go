package unlabel

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

// LiveShards returns the shards that hold a Lease of the ring. They work on what carries their label,
// and would drop it with the label.
func LiveShards(ctx context.Context, client coordinationv1client.LeasesGetter, ring string) ([]types.NamespacedName, error) {
	selector := shardingv1alpha1.LabelControllerRing + "=" + ring
	list, err := client.Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("looking for the ring's shards: %w", err)
	}
	var live []types.NamespacedName
	for i := range list.Items {
		lease := &list.Items[i]
		if holder := lease.Spec.HolderIdentity; holder != nil && (membership.Lease{Shard: lease.Name, Holder: *holder}).Held() {
			live = append(live, types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name})
		}
	}
	return live, nil
}
