package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControllerRing declares which objects are distributed over the instances of a controller. An
// instance joins the ring as a shard with a Lease that carries the ring's label.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableShards`
// +kubebuilder:printcolumn:name="Shards",type=integer,JSONPath=`.status.shards`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters, because it is part of label keys"
type ControllerRing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the ring: which objects are distributed over its shards, and how.
	// +required
	Spec ControllerRingSpec `json:"spec"`
	// Status is the observed state of the ring.
	// +optional
	Status ControllerRingStatus `json:"status,omitempty"`
}

// AcceptedNamespaces returns the namespaces from which shards may join the ring. None means all: the ring is open.
func (r *ControllerRing) AcceptedNamespaces() []string {
	if len(r.Spec.ShardNamespaces) > 0 || r.Spec.Shards == nil {
		return r.Spec.ShardNamespaces
	}
	var namespaces []string
	for _, account := range r.Spec.Shards.ServiceAccounts {
		if !slices.Contains(namespaces, account.Namespace) {
			namespaces = append(namespaces, account.Namespace)
		}
	}
	return namespaces
}

// MemberNamespaces returns the namespaces whose shards may be members: those from which shards may join, and those of
// members that joined before the spec changed. None means all.
func (r *ControllerRing) MemberNamespaces() []string {
	namespaces := slices.Clone(r.AcceptedNamespaces())
	if len(namespaces) == 0 || slices.Contains(r.Status.ShardNamespaces, "*") {
		return nil
	}
	for _, recorded := range r.Status.ShardNamespaces {
		if !slices.Contains(namespaces, recorded) {
			namespaces = append(namespaces, recorded)
		}
	}
	return namespaces
}

// ControllerRingList is a list of ControllerRings.
//
// +kubebuilder:object:root=true
type ControllerRingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ControllerRing `json:"items"`
}

// ControllerRingSpec defines which objects are distributed over the shards of a ring, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.resources) || self.resources.all(r, !(r.group.size() == 0 && r.resource == 'nodes') && (!has(r.controlledResources) || !r.controlledResources.exists(c, c.group.size() == 0 && c.resource == 'nodes')))",message="nodes cannot be sharded: they control the cluster itself"
// +kubebuilder:validation:XValidation:rule="!has(self.resources) || self.resources.all(r, !has(r.controlledResources) || r.controlledResources.all(c, !self.resources.exists(m, m.resource == c.resource && m.group == c.group)))",message="a resource must not be in both resources and controlledResources"
type ControllerRingSpec struct {
	// Resources are the main resources of the controller. Each object is assigned to a shard by its
	// own name, and the objects that it controls are assigned to the same shard.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=32
	Resources []RingResource `json:"resources,omitempty"`
	// NamespaceSelector selects the namespaces whose objects are assigned to shards. It defaults to all
	// namespaces except kube-system and sharding-system. It does not apply to cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="operator must be In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn']) == (has(e.values) && e.values.size() > 0))",message="In and NotIn require values, Exists and DoesNotExist must have none"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ShardNamespaces are the namespaces from which shards may join the ring, by default those of
	// spec.shards.serviceAccounts. If both are empty, shards may join from any namespace: everyone who can create
	// Leases in any namespace can then add a shard.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	ShardNamespaces []string `json:"shardNamespaces,omitempty"`
	// Shards defines which processes may join the ring.
	// +optional
	Shards *RingShards `json:"shards,omitempty"`
	// Drain defines what happens when a shard does not release an object that should move.
	// +optional
	Drain *DrainPolicy `json:"drain,omitempty"`
}

// RingShards defines which processes may join a ring.
type RingShards struct {
	// ServiceAccounts are the ServiceAccounts of the ring's shards. Without spec.shardNamespaces, shards may join only
	// from the namespaces of these accounts. The policies that 'ringmaster policy' prints make the API server refuse
	// the Leases of other accounts, and writes by a shard that is not the owner of an object.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	ServiceAccounts []ServiceAccount `json:"serviceAccounts,omitempty"`
}

// ServiceAccount names a ServiceAccount.
type ServiceAccount struct {
	// Namespace is the namespace of the ServiceAccount, and of the Leases of its shards.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// Name is the name of the ServiceAccount.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// RingResource is a main resource of a ring, with the resources that its objects control.
type RingResource struct {
	GroupResource `json:",inline"`
	// ControlledResources are resources whose objects have an object of the main resource as their
	// controller. They are assigned to the same shard as their controller.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=32
	ControlledResources []GroupResource `json:"controlledResources,omitempty"`
}

// GroupResource names a resource in all its versions.
type GroupResource struct {
	// Group is the API group of the resource. It is empty for the core group. Groups whose objects control the
	// cluster itself are refused.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['admissionregistration.k8s.io', 'apiextensions.k8s.io', 'apiregistration.k8s.io', 'authentication.k8s.io', 'authorization.k8s.io', 'coordination.k8s.io', 'flowcontrol.apiserver.k8s.io', 'rbac.authorization.k8s.io', 'sharding.timebertt.dev'])",message="objects of this API group cannot be sharded: they control the cluster itself, or the shards"
	Group string `json:"group"`
	// Resource is the plural name of the resource in lower case, such as deployments.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Resource string `json:"resource"`
}

// protectedGroups are the API groups that the schema of Group refuses.
var protectedGroups = []string{
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
	"authorization.k8s.io", "coordination.k8s.io", "flowcontrol.apiserver.k8s.io", "rbac.authorization.k8s.io", "sharding.timebertt.dev",
}

// IsProtected reports whether objects of the resource control the cluster itself, so that they cannot be sharded.
func (r GroupResource) IsProtected() bool {
	return slices.Contains(protectedGroups, r.Group) || r.Group == "" && r.Resource == "nodes"
}

// DrainTimeoutAction defines what happens when a drain exceeds its timeout.
//
// +kubebuilder:validation:Enum=Wait;Move
type DrainTimeoutAction string

// The actions when a drain exceeds its timeout.
const (
	// DrainWait keeps waiting. The condition Drained reports the overdue drain.
	DrainWait DrainTimeoutAction = "Wait"
	// DrainMove reassigns the object, although its previous owner may still reconcile it.
	DrainMove DrainTimeoutAction = "Move"
)

// DrainPolicy defines what happens when a shard does not release an object.
type DrainPolicy struct {
	// Timeout is how long a shard may take to release an object. By default, the time is not limited while
	// the shard is alive.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// OnTimeout is the action when a drain exceeds its timeout: Wait keeps waiting, Move reassigns the
	// object. With Move, two shards may reconcile the object at the same time.
	// +optional
	// +kubebuilder:default=Wait
	OnTimeout DrainTimeoutAction `json:"onTimeout,omitempty"`
}

// ControllerRingStatus is the observed state of a ring.
type ControllerRingStatus struct {
	// ObservedGeneration is the generation of the spec that the sharder last acted on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Shards is the number of known shards, including dead ones.
	// +optional
	// +kubebuilder:default=0
	Shards int32 `json:"shards"`
	// AvailableShards is the number of shards that are assigned objects.
	// +optional
	// +kubebuilder:default=0
	AvailableShards int32 `json:"availableShards"`
	// ShardNamespaces are the namespaces whose shards are members of the ring: those from which the spec accepts
	// shards, or "*" for all, and those removed from the spec whose shards are still alive. A sharder that starts
	// uses it to find the shards whose objects it must drain before it reassigns them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=532
	// +kubebuilder:validation:items:MaxLength=63
	ShardNamespaces []string `json:"shardNamespaces,omitempty"`
	// Conditions are the current conditions of the ring.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The conditions of a ring.
const (
	// ConditionReady is true when new objects are assigned: all resources exist, the sharder has
	// permission to write them, and a shard is available.
	ConditionReady = "Ready"
	// ConditionDrained is false while drains are outstanding.
	ConditionDrained = "Drained"
	// ConditionAssigned is false while objects are unassigned or orphaned and could not be assigned.
	ConditionAssigned = "Assigned"
	// ConditionSole is false while an in-process sharder is also active for the ring.
	ConditionSole = "SoleSharder"
	// ConditionExclusive is false while other rings have a main resource of this ring, and absent
	// otherwise. API servers call the webhooks of these rings one after the other.
	ConditionExclusive = "ExclusiveResources"
	// ConditionMatching is false while a shard declares other resources than the ring lists, and absent
	// otherwise. Shards that use the library declare their resources on their Leases.
	ConditionMatching = "MatchingResources"
	// ConditionFenced is true if policies make the API server refuse Leases of strangers, and writes by a shard
	// to objects of another one.
	ConditionFenced = "Fenced"
)

// The reasons of the conditions.
const (
	ReasonReady             = "Ready"
	ReasonUnknownResource   = "UnknownResource"
	ReasonProtectedResource = "ProtectedResource"
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
	ReasonFenced            = "Fenced"
	ReasonOpenRing          = "OpenRing"
	ReasonNoServiceAccounts = "NoServiceAccounts"
	ReasonPolicyMissing     = "PolicyMissing"
	ReasonPolicyDiffers     = "PolicyDiffers"
	ReasonAuditOnly         = "AuditOnly"
	ReasonUnboundShards     = "UnboundShards"
	ReasonNotReadable       = "PoliciesNotReadable"
)
