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

// Observer is told of Leases.
type Observer interface {
	Observe(lease *coordinationv1.Lease)
	Forget(lease types.NamespacedName)
}

// listObserver is an observer to which it matters whether a Lease was there before it observed.
type listObserver interface {
	ObserveListed(lease *coordinationv1.Lease)
}

// Follow tells an observer of all that happens to the Leases of an informer.
func Follow(informer cache.Informer, observer Observer) (toolscache.ResourceEventHandlerRegistration, error) {
	listed := observer.Observe
	if special, is := observer.(listObserver); is {
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
	// maxHolderLength is more than a holder's name can have that is a shard.
	maxHolderLength = 256
	// maxResourcesLength is enough for about 70 resources. Shards that declare more are not compared with their ring.
	maxResourcesLength = 4096
)

// Strip is a transformation for a cache of Leases: it removes all that the sharder does not read. Anybody who
// may create Leases could otherwise fill the sharder's memory. What is written must be a patch.
func Strip(object any) (any, error) {
	lease, is := object.(*coordinationv1.Lease)
	if !is {
		return object, nil // one that is gone
	}
	lease.ManagedFields, lease.OwnerReferences, lease.Finalizers = nil, nil, nil
	lease.Labels = only(lease.Labels, shardingv1alpha1.LabelControllerRing, shardingv1alpha1.LabelState)
	if len(lease.Annotations[shardingv1alpha1.AnnotationResources]) > maxResourcesLength {
		delete(lease.Annotations, shardingv1alpha1.AnnotationResources)
	}
	lease.Annotations = only(lease.Annotations, shardingv1alpha1.AnnotationLeaving, shardingv1alpha1.AnnotationResources, shardingv1alpha1.AnnotationPeersElsewhere)
	if holder := lease.Spec.HolderIdentity; holder != nil && len(*holder) > maxHolderLength {
		lease.Spec.HolderIdentity = new(strings.ToValidUTF8(strings.Clone((*holder)[:maxHolderLength]), ""))
	}
	return lease, nil
}

// only returns some of the entries, or nil if there are none of them.
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

// Cache is a cache that a manager starts before all that reads it, also where it does not lead, and stops after
// all of that has ended. What a manager is given otherwise begins with the lead, or ends first.
type Cache struct{ cache.Cache }

var _ manager.LeaderElectionRunnable = Cache{}

// NeedLeaderElection is false.
func (Cache) NeedLeaderElection() bool { return false }

// GetCache makes a manager know that it is a cache.
func (c Cache) GetCache() cache.Cache { return c.Cache }
