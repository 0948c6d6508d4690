package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Website is a page that is served under /<namespace>/<name>.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Theme",type=string,JSONPath=`.spec.theme`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.lastTransitionTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the Website.
	// +required
	Spec WebsiteSpec `json:"spec"`
	// Status is the observed state of the Website.
	// +optional
	Status WebsiteStatus `json:"status,omitempty"`
}

// WebsiteList is a list of Websites.
//
// +kubebuilder:object:root=true
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}

// WebsiteSpec is the desired state of a Website.
type WebsiteSpec struct {
	// Theme is the name of the Theme of the page.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Theme string `json:"theme"`
}

// Phase summarizes the status of a Website.
//
// +kubebuilder:validation:Enum=Pending;Ready;Error;Terminating
type Phase string

// The phases of a Website.
const (
	// PhasePending: the page is not served yet, or an old version of it is served.
	PhasePending Phase = "Pending"
	// PhaseReady: the current page is served.
	PhaseReady Phase = "Ready"
	// PhaseError: the page cannot be served until a user solves a problem. The condition Ready
	// describes it.
	PhaseError Phase = "Error"
	// PhaseTerminating: the Website is being deleted.
	PhaseTerminating Phase = "Terminating"
)

// WebsiteStatus is the observed state of a Website.
type WebsiteStatus struct {
	// ObservedGeneration is the metadata.generation that the status refers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase summarizes the status.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// LastTransitionTime is when the phase or the observed generation last changed.
	// +optional
	LastTransitionTime *metav1.MicroTime `json:"lastTransitionTime,omitempty"`
	// Conditions are the latest observations of the Website: Ready and ThemeFound.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The conditions of a Website.
const (
	// ConditionReady is true if the current page is served.
	ConditionReady = "Ready"
	// ConditionThemeFound is true if the Theme exists and is valid.
	ConditionThemeFound = "ThemeFound"
)

// The reasons of the conditions.
const (
	// ReasonServed: the page is served.
	ReasonServed = "Served"
	// ReasonWorkloadSkipped: all objects exist, and the workload is skipped.
	ReasonWorkloadSkipped = "WorkloadSkipped"
	// ReasonProgressing: the rollout of the page is in progress.
	ReasonProgressing = "Progressing"
	// ReasonReplacing: a child is being deleted, and is created again afterwards.
	ReasonReplacing = "Replacing"
	// ReasonWorkloadFailed: the Deployment has failed.
	ReasonWorkloadFailed = "WorkloadFailed"
	// ReasonNameTaken: an object of another owner has the name of a child.
	ReasonNameTaken = "NameTaken"
	// ReasonRefused: the API server rejects a child.
	ReasonRefused = "Refused"
	// ReasonInvalidSpec: the spec of the Website is invalid.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonThemeFound: the Theme exists.
	ReasonThemeFound = "Found"
	// ReasonThemeNotFound: the Theme does not exist.
	ReasonThemeNotFound = "ThemeNotFound"
	// ReasonThemeInvalid: the Theme has an invalid color or font.
	ReasonThemeInvalid = "ThemeInvalid"
	// ReasonTerminating: the Website is being deleted.
	ReasonTerminating = "Terminating"
)

// LabelSkipWorkload on a Website, with any value, is for load tests: its Deployment has no
// replicas, and Ingress controllers ignore its Ingress.
const LabelSkipWorkload = "skip-workload"

// LabelProject with the value "true" marks namespaces whose Websites are sharded.
const LabelProject = "webhosting.timebertt.dev/project"
