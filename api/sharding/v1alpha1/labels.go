package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What sharders and shards write on Leases and objects.
const (
	// LabelControllerRing on a shard's Lease names the ring that it joins.
	LabelControllerRing = "alpha.sharding.timebertt.dev/controllerring"
	// LabelState on a shard's Lease shows its state to people. Nothing reads it.
	LabelState = "alpha.sharding.timebertt.dev/state"
	// LabelShardPrefix and the ring's name are the label on an object that names its shard.
	LabelShardPrefix = "shard.alpha.sharding.timebertt.dev/"
	// LabelDrainPrefix and the ring's name are the label on an object that its shard is to let go.
	// Its presence counts. Ringmaster writes the name of the next shard as its value, which tells a
	// shard of Ringmaster where to hand the object to.
	LabelDrainPrefix = "drain.alpha.sharding.timebertt.dev/"
	// AnnotationLeaving on a shard's Lease tells that the shard is about to leave and hands its objects
	// over itself. It is a member until it has given the Lease up, but gets no more objects.
	AnnotationLeaving = "ringmaster.sharding.timebertt.dev/leaving"
	// AnnotationPeersElsewhere on a shard's Lease tells the shard that the ring has members in other namespaces, whose
	// Leases the shard does not see. The sharder writes it.
	AnnotationPeersElsewhere = "ringmaster.sharding.timebertt.dev/peers-elsewhere"
	// AnnotationInstance on a shard's Lease tells two processes with one name apart.
	AnnotationInstance = "ringmaster.sharding.timebertt.dev/instance"
	// AnnotationResources on the Lease of a shard or a leader tells what it works on, as spec.resources of a
	// ControllerRing does. There is no ControllerRing where the shards are their own sharder.
	AnnotationResources = "ringmaster.sharding.timebertt.dev/resources"
	// AnnotationNamespaceSelector on a shard's Lease tells which namespaces the shard selects where the shards
	// are their own sharder, as spec.namespaceSelector of a ControllerRing does. Without it, it is the default.
	AnnotationNamespaceSelector = "ringmaster.sharding.timebertt.dev/namespace-selector"
	// LabelSharder on the Lease of a leader tells that the leader is the sharder of the ring that it names.
	LabelSharder = "ringmaster.sharding.timebertt.dev/sharder"
	// LabelLeader on the Lease of a leader tells that it works alone, on everything that the operator with the
	// ring's name works on. AnnotationResources is on it as on a shard's.
	LabelLeader = "ringmaster.sharding.timebertt.dev/leader"
	// IdentityShardLeaseController is the holder of a Lease that the sharder took over.
	IdentityShardLeaseController = "shardlease-controller"

	// NamespaceSystem is where the sharder runs.
	NamespaceSystem = "sharding-system"
	// WebhookPathPrefix and the ring's name are the path of a ring's webhook.
	WebhookPathPrefix = "/webhooks/sharder/controllerring/"
	// WebhookConfigurationPrefix and the ring's name are the name of its webhook configuration.
	WebhookConfigurationPrefix = "controllerring-"
	// WebhookName is the name of the one webhook in it.
	WebhookName = "sharder.sharding.timebertt.dev"

	// MaxNameLength is the limit of the names of rings and shards: a ring's name is the name part
	// of two label keys, a shard's name is a label value.
	MaxNameLength = 63
)

// LabelShard is the label that names an object's shard in the ring.
func LabelShard(ring string) string { return LabelShardPrefix + ring }

// LabelDrain is the label that asks an object's shard in the ring to let it go.
func LabelDrain(ring string) string { return LabelDrainPrefix + ring }

// WebhookPath is the path under which the sharder assigns the objects of the ring.
func WebhookPath(ring string) string { return WebhookPathPrefix + ring }

// WebhookConfigurationName is the name of the ring's webhook configuration.
func WebhookConfigurationName(ring string) string { return WebhookConfigurationPrefix + ring }

// DefaultNamespaceSelector selects the namespaces of a ring that does not say which it wants: all but those
// of Kubernetes and of the sharder.
func DefaultNamespaceSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key:      corev1.LabelMetadataName,
		Operator: metav1.LabelSelectorOpNotIn,
		Values:   []string{metav1.NamespaceSystem, NamespaceSystem},
	}}}
}
