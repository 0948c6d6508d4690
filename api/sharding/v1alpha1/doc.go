// Package v1alpha1 is the API of sharding: the ControllerRing, and the labels that sharders and
// shards speak to each other with. Objects and labels are those of the public wire contract, so a
// shard written for another implementation of it can join, and be joined by, this one.
//
// +kubebuilder:object:generate=true
// +groupName=sharding.timebertt.dev
package v1alpha1
