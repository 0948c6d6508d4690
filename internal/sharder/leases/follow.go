package leases

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Observer is told of Leases.
type Observer interface {
	Observe(lease *coordinationv1.Lease)
	Forget(lease types.NamespacedName)
}

// Follow tells an observer of all that happens to the Leases of an informer.
func Follow(informer cache.Informer, observer Observer) (toolscache.ResourceEventHandlerRegistration, error) {
	return informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { observer.Observe(object.(*coordinationv1.Lease)) },
		UpdateFunc: func(_, object any) { observer.Observe(object.(*coordinationv1.Lease)) },
		DeleteFunc: func(object any) {
			if name, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
				observer.Forget(types.NamespacedName{Namespace: name.Namespace, Name: name.Name})
			}
		},
	})
}

// Cache is a cache that a manager starts before all that reads it, also where it does not lead, and stops after
// all of that has ended. What a manager is given otherwise begins with the lead, or ends first.
type Cache struct{ cache.Cache }

var _ manager.LeaderElectionRunnable = Cache{}

// NeedLeaderElection is false.
func (Cache) NeedLeaderElection() bool { return false }

// GetCache makes a manager know that it is a cache.
func (c Cache) GetCache() cache.Cache { return c.Cache }
