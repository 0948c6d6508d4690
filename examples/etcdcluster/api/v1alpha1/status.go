package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdClusterStatus is how one region of the system is doing.
type EtcdClusterStatus struct {
	// ObservedGeneration is the generation of the EtcdCluster that this is the status of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ClusterID is etcd's number of the system, in hexadecimal digits, once it was seen. It stays: where there is a system no
	// other one is started, and no other one is taken for it.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9a-f]*$`
	ClusterID string `json:"clusterID,omitempty"`
	// Endpoints are where the members of other regions were seen last. The system is looked for there as well.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Endpoints []ClientURL `json:"endpoints,omitempty"`
	// Members are this region's.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=32
	Members []MemberStatus `json:"members,omitempty"`
	// Ready is how many of them are healthy and vote.
	// +optional
	Ready int32 `json:"ready"`
	// Waiting says in a line what the operator waits for. It is empty when there is nothing to wait for.
	// +kubebuilder:validation:MaxLength=1024
	Waiting string `json:"waiting,omitempty"`
	// Conditions tell in words what is well and what is not.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MemberPhase is where a member is between its beginning and its end.
//
// +kubebuilder:validation:Enum=Prepared;Learner;Voter;Stopped;Leaving
type MemberPhase string

// The phases of a member.
const (
	// MemberPrepared is when it has its addresses, and the system does not know it yet.
	MemberPrepared MemberPhase = "Prepared"
	// MemberLearner is when it receives the system's data and does not vote.
	MemberLearner MemberPhase = "Learner"
	// MemberVoter is when it counts.
	MemberVoter MemberPhase = "Voter"
	// MemberStopped is when the system knows it and its process does not run.
	MemberStopped MemberPhase = "Stopped"
	// MemberLeaving is when the system does not know it any more and its data are still there.
	MemberLeaving MemberPhase = "Leaving"
)

// MemberStatus is how a member is doing.
type MemberStatus struct {
	// ID is what the operator calls it, and etcd's name of it.
	// +required
	ID MemberID `json:"id"`
	// MemberID is etcd's own number for it, in hexadecimal digits, once the system knows it.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9a-f]*$`
	MemberID string `json:"memberID,omitempty"`
	// ClientURL is where clients reach it.
	// +kubebuilder:validation:MaxLength=253
	ClientURL string `json:"clientURL,omitempty"`
	// PeerURL is where the other members reach it.
	// +kubebuilder:validation:MaxLength=253
	PeerURL string `json:"peerURL,omitempty"`
	// Phase is where it is.
	Phase MemberPhase `json:"phase,omitempty"`
	// Healthy is whether it answers, and knows the leader.
	// +optional
	Healthy bool `json:"healthy"`
	// Leader is whether it leads.
	Leader bool `json:"leader,omitempty"`
	// PID is the number of its process, while it runs.
	PID int64 `json:"pid,omitempty"`
	// Version is that of its etcd, as it says itself.
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// Problem says why its process does not run although it should, with its last words.
	// +kubebuilder:validation:MaxLength=512
	Problem string `json:"problem,omitempty"`
	// ArgsCurrent is whether its process has the version and the arguments that are wanted.
	// +optional
	ArgsCurrent bool `json:"argsCurrent"`
	// Removing is whether it has to go.
	Removing bool `json:"removing,omitempty"`
}

// The conditions of an EtcdCluster.
const (
	// ConditionReady is true when this region has the members that it should have, all healthy.
	ConditionReady = "Ready"
	// ConditionCoordinated is true when the operator is in agreement with the others, or has nobody to agree with.
	ConditionCoordinated = "Coordinated"
	// ConditionProgressing is true while something is being changed or waits to be.
	ConditionProgressing = "Progressing"
)

// The reasons of the condition Ready.
const (
	ReasonMembersReady   = "MembersReady"
	ReasonMembersMissing = "MembersMissing"
	ReasonTooManyMembers = "TooManyMembers"
	ReasonNoQuorum       = "NoQuorum"
	// ReasonSystemUnreachable: no member of the system answers.
	ReasonSystemUnreachable = "SystemUnreachable"
	// ReasonOtherSystem: another system answers than the one that this region is a part of.
	ReasonOtherSystem      = "OtherSystem"
	ReasonAgentUnreachable = "AgentUnreachable"
	// ReasonSystemTaken: an older EtcdCluster of the namespace is the region's part of the same system.
	ReasonSystemTaken = "SystemTaken"
)

// The reasons of the condition Coordinated.
const (
	// ReasonLocal: the operator does not agree with anybody before it acts.
	ReasonLocal   = "Local"
	ReasonWaiting = "Waiting"
	ReasonActing  = "Acting"
	ReasonSettled = "Settled"
	// ReasonMixedModes: not all regions take part.
	ReasonMixedModes = "MixedModes"
	// ReasonDenied: this operator may not act.
	ReasonDenied           = "Denied"
	ReasonPrefixTaken      = "PrefixTaken"
	ReasonStoreUnreachable = "StoreUnreachable"
	// ReasonSuperseded: a newer process of this operator works.
	ReasonSuperseded   = "Superseded"
	ReasonAgentRefused = "AgentRefused"
	ReasonFailed       = "Failed"
)

// The reasons of the condition Progressing.
const (
	ReasonStarting   = "Starting"
	ReasonJoining    = "Joining"
	ReasonReplacing  = "Replacing"
	ReasonRestarting = "Restarting"
	ReasonRemoving   = "Removing"
	ReasonUpToDate   = "UpToDate"
)
