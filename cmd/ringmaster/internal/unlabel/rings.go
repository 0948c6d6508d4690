package unlabel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

// LiveShards returns the shards that hold a Lease of the ring. They would stop reconciling the objects that lose their labels.
func LiveShards(ctx context.Context, client coordinationv1client.LeasesGetter, ring string) ([]types.NamespacedName, error) {
	selector := shardingv1alpha1.LabelControllerRing + "=" + ring
	list, err := client.Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the shards of the ring: %w", err)
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

// Joined returns the names of all rings with shard Leases, whether the shards are alive or not.
func Joined(ctx context.Context, client coordinationv1client.LeasesGetter) ([]string, error) {
	list, err := client.Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: shardingv1alpha1.LabelControllerRing})
	if err != nil {
		return nil, fmt.Errorf("listing the shards: %w", err)
	}
	rings := map[string]bool{}
	for i := range list.Items {
		rings[list.Items[i].Labels[shardingv1alpha1.LabelControllerRing]] = true
	}
	return slices.Sorted(maps.Keys(rings)), nil
}

// Labelled returns the names of all rings with labels on objects. It lists all objects, because a selector cannot match the
// beginning of a key. It ignores errors: the result only helps to correct a misspelt name.
func Labelled(ctx context.Context, client metadata.Interface, resources []Resource) []string {
	rings := map[string]bool{}
	for _, resource := range resources {
		options := metav1.ListOptions{Limit: pageSize}
		for {
			page, err := client.Resource(resource.GroupVersionResource).List(ctx, options)
			if err != nil {
				break
			}
			for i := range page.Items {
				for key := range page.Items[i].Labels {
					if ring := ringOf(key); ring != "" {
						rings[ring] = true
					}
				}
			}
			if options.Continue = page.Continue; options.Continue == "" {
				break
			}
		}
	}
	return slices.Sorted(maps.Keys(rings))
}

// ringOf returns the name of the ring in the key of a label, or "".
func ringOf(key string) string {
	for _, prefix := range []string{shardingv1alpha1.LabelShardPrefix, shardingv1alpha1.LabelDrainPrefix} {
		if ring, ok := strings.CutPrefix(key, prefix); ok {
			return ring
		}
	}
	return ""
}
