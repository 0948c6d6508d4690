// Package v1alpha1 has the kind of the multi-region sample operator: EtcdCluster, which is the part of one
// etcd cluster that one region has. What would start a second cluster, take a member out of the agent's hands or
// wait without an end that anybody has asked for is refused by its schema.
//
// +kubebuilder:object:generate=true
// +groupName=etcdcluster.timebertt.dev
package v1alpha1
