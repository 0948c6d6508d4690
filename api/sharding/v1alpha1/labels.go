package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The labels, annotations and names that sharders and shards use on Leases and objects.
const (
	// LabelControllerRing on a shard's Lease names the ring that it joins.
	LabelControllerRing = "alpha.sharding.timebertt.dev/controllerring"
	// LabelState on a shard's Lease shows the shard's state to users. No component reads it.
	LabelState = "alpha.sharding.timebertt.dev/state"
	// LabelShardPrefix, followed by the ring's name, is the label on an object that names its owner.
	LabelShardPrefix = "shard.alpha.sharding.timebertt.dev/"
	// LabelDrainPrefix, followed by the ring's name, is the label that asks an object's owner to release
	// the object. Only its presence matters to shards of other implementations. Ringmaster's sharder
	// writes the next owner as its value, to which Ringmaster's shards hand the object over.
	LabelDrainPrefix = "drain.alpha.sharding.timebertt.dev/"
	// AnnotationLeaving on a shard's Lease announces that the shard is about to leave and hands its
	// objects over itself. It stays a member until it releases the Lease, but is assigned no new objects.
	AnnotationLeaving = "ringmaster.sharding.timebertt.dev/leaving"
	// AnnotationPeersElsewhere on a shard's Lease tells the shard that the ring has members in other
	// namespaces, whose Leases the shard does not see. The sharder writes it.
	AnnotationPeersElsewhere = "ringmaster.sharding.timebertt.dev/peers-elsewhere"
	// AnnotationInstance on a shard's Lease distinguishes two processes with the same shard name.
	AnnotationInstance = "ringmaster.sharding.timebertt.dev/instance"
	// AnnotationResources on the Lease of a shard or a leader declares the resources that it reconciles,
	// in the form of a ControllerRing's spec.resources. Rings with an in-process sharder have no ControllerRing.
	AnnotationResources = "ringmaster.sharding.timebertt.dev/resources"
	// AnnotationNamespaceSelector on a shard's Lease declares the namespaces that an in-process sharder
	// selects, in the form of a ControllerRing's spec.namespaceSelector. Without it, the default applies.
	AnnotationNamespaceSelector = "ringmaster.sharding.timebertt.dev/namespace-selector"
	// AnnotationObjects on a shard's Lease has the number of objects that the shard owns, by resource, as a JSON
	// object: {"websites.webhosting.timebertt.dev":37,"deployments.apps":37}. The shard updates it when it renews
	// the Lease. It is for users; no sharder or shard reads it. Readers must ignore values that are not numbers,
	// so that a later version can publish more about a resource.
	AnnotationObjects = "ringmaster.sharding.timebertt.dev/objects"
	// AnnotationPod on a shard's Lease has the name of the pod that the shard's token is bound to, as the API server
	// sees it, or "none". The policies of a ring compare it with the name of the shard. It is for people and for the
	// condition Fenced; it proves nothing.
	AnnotationPod = "ringmaster.sharding.timebertt.dev/pod"
	// LabelSharder on the Lease of a leader marks the leader as the in-process sharder of the ring that it names.
	LabelSharder = "ringmaster.sharding.timebertt.dev/sharder"
	// LabelLeader on the Lease of a leader marks an active/passive operator of that name: the leader reconciles
	// all objects. The Lease also has AnnotationResources.
	LabelLeader = "ringmaster.sharding.timebertt.dev/leader"
	// IdentityShardLeaseController is the holder of a Lease that the sharder took over.
	IdentityShardLeaseController = "shardlease-controller"

	// NamespaceSystem is the namespace of the sharder.
	NamespaceSystem = "sharding-system"
	// WebhookPathPrefix, followed by the ring's name, is the path of a ring's webhook.
	WebhookPathPrefix = "/webhooks/sharder/controllerring/"
	// WebhookConfigurationPrefix, followed by the ring's name, is the name of a ring's webhook configuration.
	WebhookConfigurationPrefix = "controllerring-"
	// WebhookName is the name of the only webhook in a ring's webhook configuration.
	WebhookName = "sharder.sharding.timebertt.dev"

	// PolicyPrefix, followed by the ring's name, a dash and the name of the rule, is the name of a ring's
	// ValidatingAdmissionPolicy and of its binding.
	PolicyPrefix = "controllerring-"

	// MaxNameLength is the maximum length of the names of rings and shards: a ring's name is the name
	// part of two label keys, a shard's name is a label value.
	MaxNameLength = 63
)

// FencePolicy is the name of the ValidatingAdmissionPolicy by which the API server refuses writes of a shard to objects of
// another one.
func FencePolicy(ring string) string { return PolicyPrefix + ring + "-fence" }

// LabelShard is the label that names an object's owner in the ring.
func LabelShard(ring string) string { return LabelShardPrefix + ring }

// LabelDrain is the label that asks an object's owner in the ring to release it.
func LabelDrain(ring string) string { return LabelDrainPrefix + ring }

// WebhookPath is the path under which the sharder assigns the objects of the ring.
func WebhookPath(ring string) string { return WebhookPathPrefix + ring }

// WebhookConfigurationName is the name of the ring's webhook configuration.
func WebhookConfigurationName(ring string) string { return WebhookConfigurationPrefix + ring }

// DefaultNamespaceSelector selects the namespaces of a ring without a namespaceSelector: all except
// those of Kubernetes and the sharder.
func DefaultNamespaceSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key:      corev1.LabelMetadataName,
		Operator: metav1.LabelSelectorOpNotIn,
		Values:   []string{metav1.NamespaceSystem, NamespaceSystem},
	}}}
}
