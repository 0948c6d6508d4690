// Package v1alpha1 has the kinds of the sample operator: Theme and Website. What a page could be hurt
// with is refused by their schemas.
//
// +kubebuilder:object:generate=true
// +groupName=webhosting.timebertt.dev
package v1alpha1
