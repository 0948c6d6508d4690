// Package v1alpha1 defines the configuration file of the sharder.
//
// +kubebuilder:object:generate=true
// +groupName=config.sharding.timebertt.dev
package v1alpha1
