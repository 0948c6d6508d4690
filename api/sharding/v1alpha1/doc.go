// Package v1alpha1 is the API of sharding: the ControllerRing, and the labels and annotations of
// the protocol between sharders and shards. They follow the public wire contract, so shards and
// sharders of other implementations can join the same rings.
//
// +kubebuilder:object:generate=true
// +groupName=sharding.timebertt.dev
package v1alpha1
