package rings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
	"github.com/ringmaster-project/ringmaster/internal/sharder/othersharders"
)

// Facts are the input of a ring's status.
type Facts struct {
	// Unknown are the resources that the API server does not serve.
	Unknown []schema.GroupResource
	// Protected are the resources that cannot be sharded.
	Protected []schema.GroupResource
	// Missing are the permissions that the sharder lacks.
	Missing []MissingRule
	// RecheckPermissionsAt is when to check the permissions again, or zero if none is missing.
	RecheckPermissionsAt time.Time
	// Fence is whether policies protect the ring, and RecheckFenceAt when to look again, or zero.
	Fence          Fence
	RecheckFenceAt time.Time
	// Shared are the main resources that other rings list as well.
	Shared []Shared
	// Webhook is why the webhook configuration could not be written.
	Webhook error
	Shards  []members.Shard
	// Namespaces are the namespaces whose shards are members.
	Namespaces []string
	// OtherSharder is the active in-process sharder of the ring, or nil.
	OtherSharder *othersharders.Sharder
	// ForeignSharder is one in a namespace from which the ring accepts no shards, or nil.
	ForeignSharder *othersharders.Sharder
	moves.Progress
}

// refreshAfter is the time after which the facts may have changed without an event, or 0.
func (f *Facts) refreshAfter(now time.Time) time.Duration {
	var times []time.Duration
	if len(f.Unknown) > 0 {
		times = append(times, retryUnknownResourceAfter)
	}
	if !f.RecheckPermissionsAt.IsZero() {
		times = append(times, max(f.RecheckPermissionsAt.Sub(now), time.Second))
	}
	if !f.RecheckFenceAt.IsZero() {
		times = append(times, max(f.RecheckFenceAt.Sub(now), time.Second))
	}
	if f.Drains.Outstanding > 0 {
		times = append(times, refreshDrainsAfter)
	}
	if f.OtherSharder != nil { // its Lease expires without an event
		times = append(times, max(f.OtherSharder.ExpiresAt.Sub(now), time.Second))
	}
	if len(times) == 0 {
		return 0
	}
	return slices.Min(times)
}

// MissingRule is a rule that a role needs.
type MissingRule struct {
	Resource schema.GroupResource
	// Namespace and Name restrict the rule, if they are set.
	Namespace, Name string
	Verbs           []string
}

func (m MissingRule) String() string {
	name, where := "", ""
	if m.Name != "" {
		name = fmt.Sprintf(", resourceNames: [%s]", m.Name)
	}
	if m.Namespace != "" {
		where = " in the namespace " + m.Namespace
	}
	return fmt.Sprintf("{apiGroups: [%q], resources: [%q]%s, verbs: [%s]}%s", m.Resource.Group, m.Resource.Resource, name, strings.Join(m.Verbs, ", "), where)
}

// maxNamespaces is the maximum in a status: 32 that the spec admits, and one for each cordoned shard.
const maxNamespaces = 32 + membership.MaxShards

// available reports whether objects are assigned to a shard.
func available(shard members.Shard) bool {
	return shard.State.Member() && !shard.Leaving && !shard.Cordoned
}

// cordoned returns the names of the cordoned shards, which are asked to release all their objects.
func cordoned(facts *Facts) (names []string) {
	for _, shard := range facts.Shards {
		if shard.State.Member() && shard.Cordoned && !shard.Leaving {
			names = append(names, shard.Name)
		}
	}
	return names
}

// setStatus writes facts into a ring's status.
func setStatus(ring *shardingv1alpha1.ControllerRing, facts *Facts, now time.Time) {
	status := &ring.Status
	status.ObservedGeneration = ring.Generation
	status.Shards, status.AvailableShards = 0, 0
	for _, shard := range facts.Shards {
		status.Shards++
		if available(shard) {
			status.AvailableShards++
		}
	}
	status.ShardNamespaces = facts.Namespaces[:min(len(facts.Namespaces), maxNamespaces)]
	for _, condition := range []metav1.Condition{readyCondition(ring.Name, facts, status), drainedCondition(facts, now), assignedCondition(facts, status), soleCondition(facts), fencedCondition(facts)} {
		if condition.Reason == shardingv1alpha1.ReasonNotSynced && meta.FindStatusCondition(status.Conditions, condition.Type) != nil {
			continue // keep the condition of the previous leader
		}
		condition.ObservedGeneration = ring.Generation
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	setOptional(ring, shardingv1alpha1.ConditionExclusive, exclusiveCondition(facts.Shared))
	setOptional(ring, shardingv1alpha1.ConditionMatching, matchingCondition(differences(ring.Spec.Resources, facts.Shards)))
}

// setOptional sets a condition, or removes it if it is nil.
func setOptional(ring *shardingv1alpha1.ControllerRing, kind string, condition *metav1.Condition) {
	if condition == nil {
		meta.RemoveStatusCondition(&ring.Status.Conditions, kind)
		return
	}
	condition.ObservedGeneration = ring.Generation
	meta.SetStatusCondition(&ring.Status.Conditions, *condition)
}

// notSyncedCondition is the condition until this process has listed the objects. It must not be true, because clients
// rely on it.
func notSyncedCondition(kind string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: metav1.ConditionUnknown, Reason: shardingv1alpha1.ReasonNotSynced,
		Message: "The objects have not been listed yet.",
	}
}

func readyCondition(name string, facts *Facts, status *shardingv1alpha1.ControllerRingStatus) metav1.Condition {
	condition := metav1.Condition{Type: shardingv1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	switch {
	case len(facts.Unknown) > 0:
		condition.Reason = shardingv1alpha1.ReasonUnknownResource
		condition.Message = fmt.Sprintf("The API server does not serve %s. Install the CRD or correct spec.resources; the sharder retries every %s.",
			prose.List(facts.Unknown), retryUnknownResourceAfter)
	case len(facts.Protected) > 0:
		condition.Reason = shardingv1alpha1.ReasonProtectedResource
		condition.Message = fmt.Sprintf("These resources control the cluster itself and cannot be sharded: %s. Remove them from spec.resources.", prose.List(facts.Protected))
	case len(facts.Missing) > 0:
		condition.Reason = shardingv1alpha1.ReasonMissingPermission
		condition.Message = fmt.Sprintf("The sharder lacks permissions: %s. Apply what 'ringmaster role %s' prints.", prose.List(facts.Missing), name)
	case facts.Webhook != nil:
		condition.Reason = shardingv1alpha1.ReasonWebhookFailed
		condition.Message = fmt.Sprintf("Writing the webhook configuration failed, so new objects wait for the next rescue: %v", facts.Webhook)
	case status.AvailableShards == 0:
		condition.Reason = shardingv1alpha1.ReasonNoShards
		condition.Message = "No shard is available. A shard joins with a Lease that carries the ring's label."
		if names := cordoned(facts); len(names) > 0 {
			condition.Message += " Cordoned shards keep their objects until another shard is available: " + prose.List(names) + "."
		}
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, shardingv1alpha1.ReasonReady
		// It says nothing about assigned objects: an event has it, and none follows when the number of shards changes.
		condition.Message = fmt.Sprintf("New objects are assigned; %s available.", prose.Are(int(status.AvailableShards), "shard"))
		if names := cordoned(facts); len(names) > 0 {
			condition.Message += " Cordoned shards are being drained: " + prose.List(names) + "."
		}
	}
	return condition
}

// slowDrain is the age at which a drain is reported as slow if its timeout has not passed.
const slowDrain = time.Minute

func drainedCondition(facts *Facts, now time.Time) metav1.Condition {
	condition := metav1.Condition{Type: shardingv1alpha1.ConditionDrained, Status: metav1.ConditionFalse}
	report := facts.Drains
	switch {
	case !facts.Synced:
		return notSyncedCondition(condition.Type)
	case report.Outstanding == 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, shardingv1alpha1.ReasonDrained
		condition.Message = "No drains are outstanding."
	case report.Overdue > 0:
		condition.Reason = shardingv1alpha1.ReasonDrainTimeout
		condition.Message = fmt.Sprintf("%d of %d drains exceeded their timeout; oldest %s, on shard %s. Check the logs of that shard.",
			report.Overdue, report.Outstanding, roundAge(now.Sub(report.Oldest)), report.Shard)
	case !now.Before(report.Oldest.Add(slowDrain)):
		condition.Reason = shardingv1alpha1.ReasonSlowDrain
		condition.Message = fmt.Sprintf("%s outstanding; oldest %s, on shard %s. Check the logs of that shard.",
			prose.Count(report.Outstanding, "drain"), roundAge(now.Sub(report.Oldest)), report.Shard)
	default:
		condition.Reason = shardingv1alpha1.ReasonDraining
		condition.Message = fmt.Sprintf("%s outstanding; oldest %s, on shard %s.",
			prose.Count(report.Outstanding, "drain"), roundAge(now.Sub(report.Oldest)), report.Shard)
	}
	return condition
}

// roundAge rounds an age, so that the message and with it the object seldom changes.
func roundAge(age time.Duration) string {
	for _, step := range []time.Duration{time.Hour, 10 * time.Minute, time.Minute, 10 * time.Second} {
		if age >= step {
			return "more than " + age.Truncate(step).String()
		}
	}
	return "less than 10s"
}

func assignedCondition(facts *Facts, status *shardingv1alpha1.ControllerRingStatus) metav1.Condition {
	condition := metav1.Condition{Type: shardingv1alpha1.ConditionAssigned, Status: metav1.ConditionFalse, Reason: shardingv1alpha1.ReasonUnassigned}
	switch {
	case status.AvailableShards == 0:
		// Objects are not listed then, and earlier results are outdated.
		condition.Reason = shardingv1alpha1.ReasonNoShards
		condition.Message = "Objects cannot be assigned: no shard is available."
		if len(cordoned(facts)) > 0 {
			condition.Message += " Cordoned shards keep their objects."
		}
	case !facts.Synced:
		return notSyncedCondition(condition.Type)
	case facts.Err != nil:
		condition.Message = fmt.Sprintf("Assigning some objects failed, retrying: %v", facts.Err)
	case facts.Counts.Unassigned > 0:
		condition.Message = prose.Count(facts.Counts.Unassigned, "object") + " without a live owner."
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, shardingv1alpha1.ReasonAssigned
		condition.Message = "All objects have a live owner."
	}
	return condition
}

// soleCondition reports whether an in-process sharder assigns the same objects.
func soleCondition(facts *Facts) metav1.Condition {
	if facts.OtherSharder == nil {
		condition := metav1.Condition{
			Type: shardingv1alpha1.ConditionSole, Status: metav1.ConditionTrue, Reason: shardingv1alpha1.ReasonSoleSharder,
			Message: "No in-process sharder is active for this ring.",
		}
		if foreign := facts.ForeignSharder; foreign != nil {
			condition.Message += fmt.Sprintf(" A Lease in namespace %s, from which the ring accepts no shards, claims to be held by one; it is ignored.", foreign.Namespace)
		}
		return condition
	}
	return metav1.Condition{
		Type: shardingv1alpha1.ConditionSole, Status: metav1.ConditionFalse, Reason: shardingv1alpha1.ReasonTwoSharders,
		Message: fmt.Sprintf("An in-process sharder in namespace %s assigns the same objects. This is safe, but does the work twice: "+
			"run the instances in mode shard, or delete this ring.", facts.OtherSharder.Namespace),
	}
}
