package unlabel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// Joined returns the names of the rings that Leases have joined, whether their shards are alive or not.
func Joined(ctx context.Context, client coordinationv1client.LeasesGetter) ([]string, error) {
	list, err := client.Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: shardingv1alpha1.LabelControllerRing})
	if err != nil {
		return nil, fmt.Errorf("looking for shards: %w", err)
	}
	rings := map[string]bool{}
	for i := range list.Items {
		rings[list.Items[i].Labels[shardingv1alpha1.LabelControllerRing]] = true
	}
	return slices.Sorted(maps.Keys(rings)), nil
}

// Labelled returns the names of the rings whose labels objects have. It looks at all of them, because no
// selector can ask for the beginning of a key; and passes over what it cannot read, since it is for
// somebody who misspelt a name.
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

// ringOf is the name of the ring that a label is of, or "".
func ringOf(key string) string {
	for _, prefix := range []string{shardingv1alpha1.LabelShardPrefix, shardingv1alpha1.LabelDrainPrefix} {
		if ring, is := strings.CutPrefix(key, prefix); is {
			return ring
		}
	}
	return ""
}
