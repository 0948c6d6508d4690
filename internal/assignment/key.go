package assignment

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Key is what an object is hashed by: group, kind, namespace and name. Not the version, in which one
// object can be seen differently, nor the UID, which it does not have when it is created.
func Key(kind schema.GroupKind, namespace, name string) string {
	return kind.Group + "/" + kind.Kind + "/" + namespace + "/" + name
}

// Controller returns the kind and name of the object that controls another one.
func Controller(owners []metav1.OwnerReference) (kind schema.GroupKind, name string, found bool) {
	for i := range owners {
		if owner := &owners[i]; owner.Controller != nil && *owner.Controller {
			version, err := schema.ParseGroupVersion(owner.APIVersion)
			if err != nil {
				return schema.GroupKind{}, "", false
			}
			return schema.GroupKind{Group: version.Group, Kind: owner.Kind}, owner.Name, true
		}
	}
	return schema.GroupKind{}, "", false
}
