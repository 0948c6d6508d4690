package shard

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ringmaster-project/ringmaster/internal/sharder/inprocess"
)

// addSharder adds the in-process sharder, which runs while the manager leads.
func (s *Shard) addSharder(mgr manager.Manager) error {
	return inprocess.Add(mgr, inprocess.Options{
		Ring:       s.Ring(),
		Namespace:  s.options.Namespace,
		Resources:  s.resources,
		Namespaces: s.options.NamespaceSelector,
		Election: &coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.election.namespace, Name: s.election.name},
		},
		Config: s.config,
	})
}
