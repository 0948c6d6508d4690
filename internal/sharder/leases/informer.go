package leases

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// Observer observes Leases.
type Observer interface {
	Observe(lease *coordinationv1.Lease)
	Forget(lease types.NamespacedName)
}

// listObserver is an Observer that distinguishes the Leases of the initial list.
type listObserver interface {
	ObserveListed(lease *coordinationv1.Lease)
}

// Follow calls an Observer for all events of an informer for Leases.
func Follow(informer cache.Informer, observer Observer) (toolscache.ResourceEventHandlerRegistration, error) {
	listed := observer.Observe
	if special, ok := observer.(listObserver); ok {
		listed = special.ObserveListed
	}
	return informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, isInInitialList bool) {
			if lease := object.(*coordinationv1.Lease); isInInitialList {
				listed(lease)
			} else {
				observer.Observe(lease)
			}
		},
		UpdateFunc: func(_, object any) { observer.Observe(object.(*coordinationv1.Lease)) },
		DeleteFunc: func(object any) {
			if name, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
				observer.Forget(types.NamespacedName{Namespace: name.Namespace, Name: name.Name})
			}
		},
	})
}

const (
	// maxHolderLength is more than the maximum length of a shard's name.
	maxHolderLength = 256
	// maxResourcesLength is enough for about 70 resources. The sharder does not compare longer declarations with the ring.
	maxResourcesLength = 4096
)

// Strip is a cache.TransformFunc that removes everything from a Lease that the sharder does not read. Otherwise,
// any client that may create Leases could exhaust the sharder's memory. Leases must be written with patches.
func Strip(object any) (any, error) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return object, nil // a tombstone
	}
	lease.ManagedFields, lease.OwnerReferences, lease.Finalizers = nil, nil, nil
	lease.Labels = only(lease.Labels, shardingv1alpha1.LabelControllerRing, shardingv1alpha1.LabelState)
	if len(lease.Annotations[shardingv1alpha1.AnnotationResources]) > maxResourcesLength {
		delete(lease.Annotations, shardingv1alpha1.AnnotationResources)
	}
	if len(lease.Annotations[shardingv1alpha1.AnnotationPod]) > maxHolderLength {
		delete(lease.Annotations, shardingv1alpha1.AnnotationPod)
	}
	lease.Annotations = only(lease.Annotations, shardingv1alpha1.AnnotationLeaving, shardingv1alpha1.AnnotationResources,
		shardingv1alpha1.AnnotationPeersElsewhere, shardingv1alpha1.AnnotationPod)
	if holder := lease.Spec.HolderIdentity; holder != nil && len(*holder) > maxHolderLength {
		lease.Spec.HolderIdentity = new(strings.ToValidUTF8(strings.Clone((*holder)[:maxHolderLength]), ""))
	}
	return lease, nil
}

// only returns the entries with some keys, or nil if there are none.
func only(all map[string]string, keys ...string) (kept map[string]string) {
	found := 0
	for _, key := range keys {
		if _, has := all[key]; has {
			found++
		}
	}
	if found > 0 && found == len(all) {
		return all // the usual case, at each renewal
	}
	for _, key := range keys {
		if value, has := all[key]; has {
			if kept == nil {
				kept = make(map[string]string, found)
			}
			kept[key] = value
		}
	}
	return kept
}

// Cache is a cache that a manager starts before its controllers, on every replica, and stops after them. A
// manager would start a plain runnable only on the leader.
type Cache struct{ cache.Cache }

var _ manager.LeaderElectionRunnable = Cache{}

// NeedLeaderElection is false.
func (Cache) NeedLeaderElection() bool { return false }

// GetCache makes a manager treat it as a cache.
func (c Cache) GetCache() cache.Cache { return c.Cache }
