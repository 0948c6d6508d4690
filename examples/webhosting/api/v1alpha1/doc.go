// Package v1alpha1 has the kinds of the sample operator: Theme and Website. Their schemas refuse
// values that could inject markup into a page.
//
// +kubebuilder:object:generate=true
// +groupName=webhosting.timebertt.dev
package v1alpha1
