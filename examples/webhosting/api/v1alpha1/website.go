package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Website is a page of a project that is served under /<namespace>/<name>.
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

	// Spec is what is wanted.
	// +required
	Spec WebsiteSpec `json:"spec"`
	// Status is how it goes.
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

// WebsiteSpec is what somebody wants to be served.
type WebsiteSpec struct {
	// Theme is the name of the Theme that the page looks like.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Theme string `json:"theme"`
}

// Phase is where a Website is between its wish and its fulfilment.
//
// +kubebuilder:validation:Enum=Pending;Ready;Error;Terminating
type Phase string

// The phases of a Website.
const (
	// PhasePending is when its page is not served yet, or not yet as it should be.
	PhasePending Phase = "Pending"
	// PhaseReady is when its page is served as it should be.
	PhaseReady Phase = "Ready"
	// PhaseError is when something has to change before its page can be served. The condition Ready
	// says what.
	PhaseError Phase = "Error"
	// PhaseTerminating is when it is being deleted.
	PhaseTerminating Phase = "Terminating"
)

// WebsiteStatus is how a Website is doing.
type WebsiteStatus struct {
	// ObservedGeneration is the generation of the Website that this is the status of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is where the Website is.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// LastTransitionTime is when the phase or the observed generation has changed.
	// +optional
	LastTransitionTime *metav1.MicroTime `json:"lastTransitionTime,omitempty"`
	// Conditions tell in words what is well and what is not.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The conditions of a Website.
const (
	// ConditionReady is true when the page is served as it should be.
	ConditionReady = "Ready"
	// ConditionThemeFound is true when the Theme is there and can be used.
	ConditionThemeFound = "ThemeFound"
)

// The reasons of the conditions.
const (
	// ReasonServed: the page is served.
	ReasonServed = "Served"
	// ReasonWorkloadSkipped: all objects are there, and no pod is wanted.
	ReasonWorkloadSkipped = "WorkloadSkipped"
	// ReasonProgressing: pods with the page are on their way.
	ReasonProgressing = "Progressing"
	// ReasonReplacing: somebody has deleted one of the objects, and it is not gone yet.
	ReasonReplacing = "Replacing"
	// ReasonWorkloadFailed: the Deployment says that it cannot go on.
	ReasonWorkloadFailed = "WorkloadFailed"
	// ReasonNameTaken: an object of somebody else has the name that one of ours needs.
	ReasonNameTaken = "NameTaken"
	// ReasonRefused: the API server does not take one of the objects.
	ReasonRefused = "Refused"
	// ReasonInvalidSpec: the Website's own spec cannot be fulfilled.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonThemeFound: the Theme is there.
	ReasonThemeFound = "Found"
	// ReasonThemeNotFound: there is no Theme of that name.
	ReasonThemeNotFound = "ThemeNotFound"
	// ReasonThemeInvalid: the Theme has a color or a font that no page may have.
	ReasonThemeInvalid = "ThemeInvalid"
	// ReasonTerminating: the Website is being deleted.
	ReasonTerminating = "Terminating"
)

// LabelSkipWorkload on a Website, with any value, is for load tests: its Deployment has no replicas and
// no Ingress controller takes notice of its Ingress.
const LabelSkipWorkload = "skip-workload"

// LabelProject with the value "true" is on the namespaces that have Websites.
const LabelProject = "webhosting.timebertt.dev/project"
