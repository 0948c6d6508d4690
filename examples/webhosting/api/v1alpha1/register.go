package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: "webhosting.timebertt.dev", Version: "v1alpha1"}

// SchemeBuilder and AddToScheme add the kinds of this package to a scheme.
var (
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	AddToScheme   = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &Theme{}, &ThemeList{}, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
