package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControllerRing declares which objects are spread over the instances of a controller that join
// it. An instance joins with a Lease that carries the ring's label.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableShards`
// +kubebuilder:printcolumn:name="Shards",type=integer,JSONPath=`.status.shards`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of a ring has at most 63 characters, because it becomes part of label keys"
type ControllerRing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is to be spread.
	// +required
	Spec ControllerRingSpec `json:"spec"`
	// Status is how it goes.
	// +optional
	Status ControllerRingStatus `json:"status,omitempty"`
}

// ControllerRingList is a list of ControllerRings.
//
// +kubebuilder:object:root=true
type ControllerRingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ControllerRing `json:"items"`
}

// ControllerRingSpec is what is to be spread over the shards of a ring.
//
// +kubebuilder:validation:XValidation:rule="!has(self.resources) || self.resources.all(r, !has(r.controlledResources) || r.controlledResources.all(c, !self.resources.exists(m, m.resource == c.resource && m.group == c.group)))",message="a resource is either in resources or in controlledResources, not in both"
type ControllerRingSpec struct {
	// Resources are the main resources of the controller. Each object is assigned by its own name,
	// its controlled objects follow it.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=32
	Resources []RingResource `json:"resources,omitempty"`
	// NamespaceSelector chooses the namespaces whose objects are spread. By default these are all
	// but kube-system and sharding-system. Cluster-scoped objects are spread whatever it says.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="an operator is In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn']) == (has(e.values) && e.values.size() > 0))",message="In and NotIn need values, Exists and DoesNotExist take none"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ShardNamespaces are the namespaces whose Leases may join the ring. By default a Lease may from
	// any namespace: who may write Leases with the ring's label somewhere can then take a share.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	ShardNamespaces []string `json:"shardNamespaces,omitempty"`
	// Drain says what happens when a shard does not let go of an object that is to move.
	// +optional
	Drain *DrainPolicy `json:"drain,omitempty"`
}

// RingResource is a main resource of a ring, with what its objects control.
type RingResource struct {
	GroupResource `json:",inline"`
	// ControlledResources are resources whose objects have an object of the main resource as their
	// controller, and are assigned to the same shard.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=32
	ControlledResources []GroupResource `json:"controlledResources,omitempty"`
}

// GroupResource names a resource in all its versions.
type GroupResource struct {
	// Group of the resource. The core group is the empty one.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// Resource is its plural name in lower case, such as deployments.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Resource string `json:"resource"`
}

// DrainTimeoutAction is what happens after a drain's timeout.
//
// +kubebuilder:validation:Enum=Wait;Move
type DrainTimeoutAction string

// What can happen after a drain's timeout.
const (
	// DrainWait waits on. The ring tells of it.
	DrainWait DrainTimeoutAction = "Wait"
	// DrainMove gives the object to the next shard, although the old one may still work on it.
	DrainMove DrainTimeoutAction = "Move"
)

// DrainPolicy says what happens when a shard does not let go of an object.
type DrainPolicy struct {
	// Timeout is how long a shard has. By default it has for ever, for as long as it is alive.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// OnTimeout says what happens then. Move makes it possible that two shards work on one object.
	// +optional
	// +kubebuilder:default=Wait
	OnTimeout DrainTimeoutAction `json:"onTimeout,omitempty"`
}

// ControllerRingStatus is how a ring is doing.
type ControllerRingStatus struct {
	// ObservedGeneration is the generation of the spec that this is the status of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Shards is how many shards are known.
	// +optional
	// +kubebuilder:default=0
	Shards int32 `json:"shards"`
	// AvailableShards is how many of them are members of the ring.
	// +optional
	// +kubebuilder:default=0
	AvailableShards int32 `json:"availableShards"`
	// ShardNamespaces are the namespaces whose shards are members of the ring: those that spec.shardNamespaces
	// admits, or "*" if it admits all, and those that it admitted before and whose shards are still alive. A
	// sharder that starts knows from it which shards must release their objects before others get them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=532
	// +kubebuilder:validation:items:MaxLength=63
	ShardNamespaces []string `json:"shardNamespaces,omitempty"`
	// Conditions tell in words what is well and what is not.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The conditions of a ring.
const (
	// ConditionReady is true when new objects get a shard: the sharder knows all resources, may
	// write them, and there is a shard.
	ConditionReady = "Ready"
	// ConditionDrained is false while shards have been asked to let objects go and have not.
	ConditionDrained = "Drained"
	// ConditionAssigned is false when the last sync found objects without a live shard that it could
	// not assign.
	ConditionAssigned = "Assigned"
	// ConditionSole is false while an instance of the operator is the sharder of the ring itself.
	ConditionSole = "SoleSharder"
	// ConditionExclusive is false while other rings have a main resource of the ring as well, and absent
	// otherwise. API servers call their webhooks one after the other.
	ConditionExclusive = "ExclusiveResources"
	// ConditionMatching is false while a shard has declared other resources than the ring lists, and absent
	// otherwise. Shards that use the library declare theirs, on their Leases.
	ConditionMatching = "MatchingResources"
)

// The reasons of the conditions.
const (
	ReasonReady             = "Ready"
	ReasonUnknownResource   = "UnknownResource"
	ReasonMissingPermission = "MissingPermission"
	ReasonNoShards          = "NoShards"
	ReasonWebhookFailed     = "WebhookFailed"
	ReasonDrained           = "NothingOutstanding"
	ReasonDraining          = "Draining"
	ReasonSlowDrain         = "SlowDrain"
	ReasonDrainTimeout      = "DrainTimeout"
	ReasonAssigned          = "AllAssigned"
	ReasonUnassigned        = "UnassignedObjects"
	ReasonNotSynced         = "NotSynced"
	ReasonSoleSharder       = "SoleSharder"
	ReasonTwoSharders       = "TwoSharders"
	ReasonSharedResource    = "SharedResource"
	ReasonTooManyRings      = "TooManyRings"
	ReasonNotWatched        = "NotWatched"
	ReasonNotListed         = "NotListed"
)
