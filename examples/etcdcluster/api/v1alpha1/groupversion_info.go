// Package v1alpha1 has the kind EtcdCluster: the part of an etcd cluster that one region has. Its schema refuses what would start
// a second etcd cluster, set flags that the agent sets itself, or wait for a time that nobody has given.
//
// +kubebuilder:object:generate=true
// +groupName=etcdcluster.timebertt.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// SchemeGroupVersion is the group and version of this package.
	SchemeGroupVersion = schema.GroupVersion{Group: "etcdcluster.timebertt.dev", Version: "v1alpha1"}
	// SchemeBuilder adds the kinds of this package to a scheme, and AddToScheme calls it.
	SchemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(SchemeGroupVersion, &EtcdCluster{}, &EtcdClusterList{})
		metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
		return nil
	})
	AddToScheme = SchemeBuilder.AddToScheme
)
