package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdCluster is what one region has of an etcd cluster that several regions make up together.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Members",type=integer,JSONPath=`.spec.members`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.automationOptions.synchronizationMode`
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Coordinated",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Coordinated")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type EtcdCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	// +required
	Spec EtcdClusterSpec `json:"spec"`
	// Status is how it goes.
	Status EtcdClusterStatus `json:"status,omitempty"`
}

// EtcdClusterList is a list of EtcdClusters.
//
// +kubebuilder:object:root=true
type EtcdClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdCluster `json:"items"`
}

// Prefix is that of the members of one region. It is a part of their IDs, of the operators' keys and of host
// names.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type Prefix string

// MemberID is what the operator and the agent call a member, and what etcd knows as its name.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type MemberID string

// ClientURL is where a member of the system can be reached by clients.
//
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^https?://[^/?#\s]+$`
type ClientURL string

// InstanceName is that of an instance of the operator.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[^/\s]+$`
type InstanceName string

// ArgValue is what follows the equals sign of an argument.
//
// +kubebuilder:validation:MaxLength=256
type ArgValue string

// EtcdClusterSpec is what is wanted of one region.
//
// +kubebuilder:validation:XValidation:rule="has(self.system) == has(oldSelf.system) && (!has(self.system) || self.system == oldSelf.system)",message="an EtcdCluster stays with its system: delete it and create another one for another system"
// +kubebuilder:validation:XValidation:rule="self.bootstrap || (has(self.seeds) && self.seeds.size() > 0)",message="a region that does not start the system has to know where it is: add seeds, or set bootstrap in the one region that starts it"
// +kubebuilder:validation:XValidation:rule="!has(self.lostRegions) || !self.lostRegions.exists(r, r == self.processGroupIDPrefix)",message="a region that is there is not lost: take its own prefix out of lostRegions"
type EtcdClusterSpec struct {
	// System is the name of the etcd cluster. It is the same in all regions. By default it is the name of this
	// object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	System string `json:"system,omitempty"`
	// Bootstrap makes this region start the first member of the system. All others join. Exactly one region may
	// have it: two would start two systems.
	// +optional
	// +kubebuilder:default=false
	Bootstrap bool `json:"bootstrap"`
	// Seeds are addresses at which the system may be found. One that answers is enough.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Seeds []ClientURL `json:"seeds,omitempty"`
	// Version is that of etcd, such as 3.6.1. By default it is the one that the region's agent comes with. A member is
	// restarted to get another one.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`
	Version string `json:"version,omitempty"`
	// Args are flags of etcd, without dashes. A member is restarted to get others.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z][a-z0-9-]{0,63}$'))",message="the name of an argument is that of a flag of etcd without dashes before it, such as heartbeat-interval"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['name', 'data-dir', 'wal-dir', 'config-file', 'force-new-cluster']))",message="the agent sets name, data-dir and wal-dir itself, and takes no config-file and no force-new-cluster"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('initial-') && !k.startsWith('listen-') && !k.startsWith('advertise-') && !k.startsWith('discovery') && !k.startsWith('peer-'))",message="the agent sets all arguments that begin with initial-, listen-, advertise-, discovery or peer- itself"
	Args map[string]ArgValue `json:"args,omitempty"`
	// Members is how many members this region has.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9
	Members int32 `json:"members"`
	// ProcessGroupIDPrefix is what the IDs of this region's members begin with. No other region has it.
	// +required
	ProcessGroupIDPrefix Prefix `json:"processGroupIDPrefix"`
	// Replace are members of this region that have to go. Others take their place before.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Replace []MemberID `json:"replace,omitempty"`
	// LostRegions are the prefixes of regions that will not return. Their members are removed by whoever acts. Members keep
	// the IDs that they were made with: of a region that has had another prefix name both.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	LostRegions []Prefix `json:"lostRegions,omitempty"`
	// Regions are the prefixes of all regions that manage members, to be able to say who takes no part.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Regions []Prefix `json:"regions,omitempty"`
	// AutomationOptions say how the operator goes about it.
	// +kubebuilder:default={}
	AutomationOptions AutomationOptions `json:"automationOptions,omitempty"`
}

// SynchronizationMode says whether the operators of the regions agree before they disturb the system.
//
// +kubebuilder:validation:Enum=local;global
type SynchronizationMode string

const (
	// SynchronizationLocal is when each operator acts on its own members as soon as it has the lock.
	SynchronizationLocal SynchronizationMode = "local"
	// SynchronizationGlobal is when one of them acts for all, on all that is pending.
	SynchronizationGlobal SynchronizationMode = "global"
)

// MissingPolicy says what becomes of members that are not ready.
//
// +kubebuilder:validation:Enum=Wait;GoOn;LeaveOut
type MissingPolicy string

const (
	// MissingWait is to wait for every member, however long it takes.
	MissingWait MissingPolicy = "Wait"
	// MissingGoOn is to act after a time on those that are ready.
	MissingGoOn MissingPolicy = "GoOn"
	// MissingLeaveOut is to leave out the members of regions that are gone, and to wait for the others.
	MissingLeaveOut MissingPolicy = "LeaveOut"
)

// AutomationOptions say how the operator goes about its work.
//
// +kubebuilder:validation:XValidation:rule="(has(self.missing) && self.missing == 'GoOn') == has(self.goOnAfter)",message="goOnAfter and missing: GoOn go together"
type AutomationOptions struct {
	// SynchronizationMode says whether this region's operator agrees with the others before it acts.
	// +kubebuilder:default=local
	SynchronizationMode SynchronizationMode `json:"synchronizationMode,omitempty"`
	// QuietWindow is how long nothing new may have become pending before one of them acts.
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="a quiet window is at most 1h, and not negative"
	QuietWindow *metav1.Duration `json:"quietWindow,omitempty"`
	// Missing says what becomes of members that are not ready when all others are.
	// +kubebuilder:default=Wait
	Missing MissingPolicy `json:"missing,omitempty"`
	// GoOnAfter is how long to wait for members that are not ready, if the policy is to go on without them.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="a time to wait is more than nothing"
	GoOnAfter *metav1.Duration `json:"goOnAfter,omitempty"`
	// DenyList are instances of the operator that may not act. Who acts nevertheless is stopped.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	DenyList []InstanceName `json:"denyList,omitempty"`
}
