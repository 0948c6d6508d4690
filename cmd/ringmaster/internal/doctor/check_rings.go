package doctor

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// evaluateRings judges the rings and their conditions. Conditions that say what another check has found
// are left out.
func evaluateRings(f *Facts, rings []*ring, others ...*Check) *Check {
	c := &Check{Name: checkRings}
	c.requireRings(f)
	count := 0
	for _, r := range rings {
		if r.exists() {
			count++
			evaluateRing(c, f, r, others)
		}
	}
	if count == 0 {
		return c.message("there are none")
	}
	return c.message("%s with available shards and without a condition that is not True", prose.Count(count, "ring"))
}

func evaluateRing(c *Check, f *Facts, r *ring, others []*Check) {
	if f.Leases.known() && len(r.available()) == 0 {
		c.add(Finding{
			Reason: RingHasNoShards, Status: Failure, Ring: r.name, Object: r.object(),
			Cause: "no shard is available: none of its objects is reconciled",
			Next: fmt.Sprintf("start the controller, and check that its Leases carry the label %s=%s: kubectl get leases -A -l %[1]s=%[2]s",
				shardingv1alpha1.LabelControllerRing, r.name),
		})
	}
	if r.declared == nil {
		return
	}
	if len(r.declared.Spec.Resources) == 0 {
		c.add(Finding{
			Reason: RingHasNoResources, Status: Warning, Ring: r.name, Object: r.object(),
			Cause: "spec.resources is empty, so no object is assigned",
			Next:  fmt.Sprintf("kubectl edit controllerring %s, and add the resources that the controller reconciles", r.name),
		})
	}
	if status := &r.declared.Status; f.externalLeads() && (status.ObservedGeneration != r.declared.Generation || len(status.Conditions) == 0) {
		c.add(Finding{
			Reason: RingNotObserved, Status: Failure, Ring: r.name, Object: r.object(),
			Cause: fmt.Sprintf("the sharder has observed generation %d, but the ring has generation %d", status.ObservedGeneration, r.declared.Generation),
			Next:  fmt.Sprintf("kubectl -n %s logs -l app.kubernetes.io/name=sharder, and look for this ring", f.Sharder.Namespace),
		})
	}
	for i := range r.declared.Status.Conditions {
		condition := &r.declared.Status.Conditions[i]
		if condition.Status != metav1.ConditionTrue && !isOptional(condition) && !explained(c, r.name, condition, others) {
			c.add(conditionFinding(r, condition))
		}
	}
}

// isOptional reports whether a condition is not True because policies were not applied, or only to try them.
func isOptional(condition *metav1.Condition) bool {
	return condition.Type == shardingv1alpha1.ConditionFenced && slices.Contains([]string{
		shardingv1alpha1.ReasonNoServiceAccounts, shardingv1alpha1.ReasonPolicyMissing, shardingv1alpha1.ReasonAuditOnly,
	}, condition.Reason)
}

func conditionFinding(r *ring, condition *metav1.Condition) Finding {
	status := Warning
	switch {
	case condition.Status != metav1.ConditionFalse:
	case condition.Type == shardingv1alpha1.ConditionReady, condition.Type == shardingv1alpha1.ConditionAssigned,
		condition.Reason == shardingv1alpha1.ReasonNotWatched, condition.Reason == shardingv1alpha1.ReasonDrainTimeout:
		status = Failure
	}
	return Finding{
		Reason: ConditionNotTrue, Status: status, Ring: r.name, Object: r.object(),
		Cause: fmt.Sprintf("the condition %s is %s (%s): %s", condition.Type, condition.Status, condition.Reason, condition.Message),
		Next:  "follow the message; 'ringmaster status " + r.name + "' shows the shards and their objects",
	}
}

// explained reports whether a finding says the same as a condition.
func explained(rings *Check, ring string, condition *metav1.Condition, others []*Check) bool {
	reasons := map[string][]Reason{
		shardingv1alpha1.ReasonNoShards:          {RingHasNoShards},
		shardingv1alpha1.ReasonUnknownResource:   {ResourceNotServed},
		shardingv1alpha1.ReasonMissingPermission: {SharderLacksPermission},
		shardingv1alpha1.ReasonNotWatched:        {KindNotWatched},
		shardingv1alpha1.ReasonNotListed:         {KindNotListed, KindNotWatched},
		shardingv1alpha1.ReasonTwoSharders:       {TwoSharders},
	}[condition.Reason]
	for _, check := range append([]*Check{rings}, others...) {
		if check.has(ring, reasons...) {
			return true
		}
	}
	return false
}
