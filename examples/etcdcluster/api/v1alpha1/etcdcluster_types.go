// Package v1alpha1 has the kind EtcdCluster: the part of an etcd cluster in one region. Its schema refuses objects that would start
// a second etcd cluster, set flags that the agent sets itself, or wait for an unspecified time.
//
// +kubebuilder:object:generate=true
// +groupName=etcdcluster.timebertt.dev
package v1alpha1

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// SchemeGroupVersion is the group and version of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: "etcdcluster.timebertt.dev", Version: "v1alpha1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &EtcdCluster{}, &EtcdClusterList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}

// EtcdCluster is the part of an etcd cluster in one region.
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

	// Spec is the desired state of the region.
	// +required
	Spec EtcdClusterSpec `json:"spec"`
	// Status is the observed state of the region.
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

// Prefix is the prefix of the member IDs of a region, of its operator's keys and of host names.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type Prefix string

// Owns tells whether an ID is one of the prefix: <prefix>-<text without a hyphen>. Another prefix may begin in the same way.
func (p Prefix) Owns(id MemberID) bool {
	rest, found := strings.CutPrefix(string(id), string(p)+"-")
	return found && rest != "" && !strings.Contains(rest, "-")
}

// MemberID is the name of a member in etcd, and its ID for the operator and the agent.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type MemberID string

// ArgValue is the value of a flag.
// +kubebuilder:validation:MaxLength=256
type ArgValue string

// EtcdClusterSpec is the desired state of a region.
// +kubebuilder:validation:XValidation:rule="has(self.system) == has(oldSelf.system) && (!has(self.system) || self.system == oldSelf.system)",message="the system is immutable: delete the EtcdCluster and create another one for another system"
// +kubebuilder:validation:XValidation:rule="self.bootstrap || (has(self.seeds) && self.seeds.size() > 0)",message="a region without bootstrap needs the address of the system: add seeds, or set bootstrap in the one region that starts the system"
// +kubebuilder:validation:XValidation:rule="!has(self.lostRegions) || !self.lostRegions.exists(r, r == self.processGroupIDPrefix)",message="a region cannot declare itself lost: remove its own prefix from lostRegions"
type EtcdClusterSpec struct {
	// System is the name of the etcd cluster, the same in all regions. It defaults to the name of this object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	System string `json:"system,omitempty"`
	// Bootstrap makes this region start the first member of the system. Set it in exactly one region: two would start two systems.
	// +optional
	// +kubebuilder:default=false
	Bootstrap bool `json:"bootstrap"`
	// Seeds are client URLs of members of the system. One that answers is enough.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^https?://[^/?#\s]+$`
	Seeds []string `json:"seeds,omitempty"`
	// Version is the etcd version, such as 3.6.1. It defaults to the agent's. A change restarts the members.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`
	Version string `json:"version,omitempty"`
	// Args are flags of etcd, without leading dashes. A change restarts the members.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z][a-z0-9-]{0,63}$'))",message="the name of an argument is the name of an etcd flag without leading dashes, such as heartbeat-interval"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['name', 'data-dir', 'wal-dir', 'config-file', 'force-new-cluster']))",message="the agent sets name, data-dir and wal-dir itself, and takes no config-file and no force-new-cluster"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('initial-') && !k.startsWith('listen-') && !k.startsWith('advertise-') && !k.startsWith('discovery') && !k.startsWith('peer-'))",message="the agent sets all arguments that begin with initial-, listen-, advertise-, discovery or peer- itself"
	Args map[string]ArgValue `json:"args,omitempty"`
	// Members is the number of members in this region.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9
	Members int32 `json:"members"`
	// ProcessGroupIDPrefix is the prefix of the IDs of this region's members. It is unique among the regions.
	// +required
	ProcessGroupIDPrefix Prefix `json:"processGroupIDPrefix"`
	// Replace are members of this region to replace. Their replacements join first.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Replace []MemberID `json:"replace,omitempty"`
	// LostRegions are prefixes of regions that will not return. Their members are removed. Members keep their IDs when the prefix of
	// their region changes: name the former prefix too.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	LostRegions []Prefix `json:"lostRegions,omitempty"`
	// Regions are the prefixes of all regions. The condition Coordinated names those that do not take part.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Regions []Prefix `json:"regions,omitempty"`
	// AutomationOptions configure the operator.
	// +kubebuilder:default={}
	AutomationOptions AutomationOptions `json:"automationOptions,omitempty"`
}

// SystemName is the name of the etcd cluster that this is a part of.
func (c *EtcdCluster) SystemName() string { return cmp.Or(c.Spec.System, c.Name) }

// Addresses are client URLs of the system, as far as they are known.
func (c *EtcdCluster) Addresses() (urls []string) {
	urls = slices.Concat(c.Spec.Seeds, c.Status.Endpoints)
	for _, m := range c.Status.Members {
		if m.PID != 0 {
			urls = append(urls, m.ClientURL)
		}
	}
	return urls
}

// SynchronizationMode says whether the operators of the regions agree before they disturb the system.
// +kubebuilder:validation:Enum=local;global
type SynchronizationMode string

// MissingPolicy is the policy for members that are not ready.
// +kubebuilder:validation:Enum=Wait;GoOn;LeaveOut
type MissingPolicy string

// The values of the options.
const (
	SynchronizationLocal  SynchronizationMode = "local"  // each operator acts on its own members, one operator at a time
	SynchronizationGlobal SynchronizationMode = "global" // one operator acts on all members that need something

	MissingWait     MissingPolicy = "Wait"     // wait for every member
	MissingGoOn     MissingPolicy = "GoOn"     // continue without them after a time
	MissingLeaveOut MissingPolicy = "LeaveOut" // continue without members of regions whose operator is gone, and wait for the others

	// DefaultQuietWindow is the default of the schema, also for objects that are older than it.
	DefaultQuietWindow = 5 * time.Second
)

// AutomationOptions configure the operator.
// +kubebuilder:validation:XValidation:rule="(has(self.missing) && self.missing == 'GoOn') == has(self.goOnAfter)",message="goOnAfter and missing: GoOn go together"
type AutomationOptions struct {
	// SynchronizationMode is global if this region's operator agrees with the others before it acts, and local if it does not.
	// +kubebuilder:default=local
	SynchronizationMode SynchronizationMode `json:"synchronizationMode,omitempty"`
	// QuietWindow is the time without a new or withdrawn need before an action begins.
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="a quiet window is at most 1h, and not negative"
	QuietWindow *metav1.Duration `json:"quietWindow,omitempty"`
	// Missing is the policy for members that are not ready: wait for them (Wait), continue without them after a time (GoOn), or
	// continue without members of regions whose operator is gone (LeaveOut).
	// +kubebuilder:default=Wait
	Missing MissingPolicy `json:"missing,omitempty"`
	// GoOnAfter is the time after which the policy GoOn continues without a member.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="goOnAfter must be positive"
	GoOnAfter *metav1.Duration `json:"goOnAfter,omitempty"`
	// DenyList are names of operators that may not hold the lock. If one of them holds it, another operator takes it over.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[^/\s]+$`
	DenyList []string `json:"denyList,omitempty"`
}

// Quiet returns the QuietWindow or its default.
func (o *AutomationOptions) Quiet() time.Duration {
	return ptr.Deref(o.QuietWindow, metav1.Duration{Duration: DefaultQuietWindow}).Duration
}

// EtcdClusterStatus is the observed state of a region.
type EtcdClusterStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ClusterID is etcd's ID of the system, in hexadecimal digits. It never changes, so that the region cannot start or join another system.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9a-f]*$`
	ClusterID string `json:"clusterID,omitempty"`
	// Endpoints are the last known client URLs of members of other regions.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^https?://[^/?#\s]+$`
	Endpoints []string `json:"endpoints,omitempty"`
	// Members are the members of this region.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=32
	Members []MemberStatus `json:"members,omitempty"`
	// Ready is the number of members that are healthy and have a vote.
	// +optional
	Ready int32 `json:"ready"`
	// Waiting are the reasons why pending actions wait.
	// +kubebuilder:validation:MaxLength=1024
	Waiting string `json:"waiting,omitempty"`
	// Conditions are Ready, Coordinated and Progressing.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MemberPhase is the phase in the life of a member.
// +kubebuilder:validation:Enum=Prepared;Learner;Voter;Stopped;Leaving
type MemberPhase string

// The phases of a member.
const (
	MemberPrepared MemberPhase = "Prepared" // it has its addresses, and the system does not know it yet
	MemberLearner  MemberPhase = "Learner"  // it receives the data, and does not vote
	MemberVoter    MemberPhase = "Voter"    // it has a vote
	MemberStopped  MemberPhase = "Stopped"  // the system knows it, and its process does not run
	MemberLeaving  MemberPhase = "Leaving"  // the system does not know it any more, but its data exists
)

// MemberStatus is the observed state of a member.
type MemberStatus struct {
	// ID is the member's name in etcd.
	// +required
	ID MemberID `json:"id"`
	// MemberID is etcd's ID of the member, in hexadecimal digits.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9a-f]*$`
	MemberID string `json:"memberID,omitempty"`
	// ClientURL is the URL at which clients reach the member.
	// +kubebuilder:validation:MaxLength=253
	ClientURL string `json:"clientURL,omitempty"`
	// PeerURL is the URL at which other members reach the member.
	// +kubebuilder:validation:MaxLength=253
	PeerURL string `json:"peerURL,omitempty"`
	// Phase is the phase in the life of the member.
	Phase MemberPhase `json:"phase,omitempty"`
	// Healthy is true if the member answers, follows a leader and reports no error.
	// +optional
	Healthy bool `json:"healthy"`
	// Leader is true if the member is the leader.
	Leader bool `json:"leader,omitempty"`
	// PID is the ID of the member's process, while it runs.
	PID int64 `json:"pid,omitempty"`
	// Version is the etcd version that the member reports.
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// Problem is the reason why the member's process does not run although it should, with its last message.
	// +kubebuilder:validation:MaxLength=512
	Problem string `json:"problem,omitempty"`
	// ArgsCurrent is true if the member's process runs with the version and the flags of the spec.
	// +optional
	ArgsCurrent bool `json:"argsCurrent"`
	// Removing is true if the member has to be removed.
	Removing bool `json:"removing,omitempty"`
}

// The conditions of an EtcdCluster, with the reasons that are not those of pkg/coordination.
const (
	ConditionReady          = "Ready" // this region has the members of the spec, all healthy
	ReasonMembersReady      = "MembersReady"
	ReasonMembersMissing    = "MembersMissing"
	ReasonTooManyMembers    = "TooManyMembers"
	ReasonNoQuorum          = "NoQuorum"
	ReasonSystemUnreachable = "SystemUnreachable" // no member of the system answers
	ReasonOtherSystem       = "OtherSystem"       // another system answers at the addresses of this region's system
	ReasonAgentUnreachable  = "AgentUnreachable"
	ReasonSystemTaken       = "SystemTaken" // an older EtcdCluster of the namespace manages the region's part of the system

	// Those of coordination.ConditionCoordinated that pkg/coordination does not have.
	ReasonStoreUnreachable = "StoreUnreachable"
	ReasonAgentRefused     = "AgentRefused"

	ConditionProgressing = "Progressing" // members need something
	ReasonStarting       = "Starting"
	ReasonMembersPending = "MembersPending"
	ReasonUpToDate       = "UpToDate"
)
