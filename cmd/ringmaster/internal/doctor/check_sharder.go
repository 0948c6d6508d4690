package doctor

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// consequence describes the consequence of a missing sharder.
const consequence = "new objects get no shard, and the objects of shards that die are not moved"

func evaluateSharder(f *Facts, rings []*ring) *Check {
	c := &Check{Name: checkSharder}
	c.requireRings(f)
	external := slices.ContainsFunc(rings, func(r *ring) bool { return r.declared != nil && r.inProcessLeads(f.Now) == nil })
	if external {
		evaluateElection(c, f)
	}
	for _, r := range rings {
		evaluateInProcess(c, f, r)
	}
	if external && len(c.Findings) == 0 {
		if f.Sharder.Election.Value == nil {
			return c.message("a pod of the sharder is ready; leader election is disabled")
		}
		return c.message("%s leads", holder(f.Sharder.Election.Value))
	}
	return c.message("no ring needs the external sharder")
}

// evaluateElection judges the external sharder.
func evaluateElection(c *Check, f *Facts) {
	namespace, election := f.Sharder.Namespace, f.Sharder.Election
	object := "Lease/" + namespace + "/" + electionName
	switch {
	case !election.known():
		c.unreadable(object, election.Err)
	case f.externalLeads():
	case election.Value == nil && !f.Sharder.Pods.known(): // leader election may be disabled
	case election.Value == nil:
		c.add(Finding{
			Reason: SharderMissing, Status: Failure, Object: object,
			Cause: "not found, so the sharder has never run in the namespace " + namespace + ": " + consequence,
			Next:  "install the sharder with 'kubectl apply -k config/default', or name its namespace with --sharder-namespace",
		})
	default:
		c.add(Finding{
			Reason: SharderNotLeading, Status: Failure, Object: object,
			Cause: notLeading(f, holder(election.Value), renewTime(election.Value)),
			Next:  fmt.Sprintf("kubectl -n %s get pods, then read their logs", namespace),
		})
	}
	if !f.Sharder.Pods.known() {
		c.unreadable("pods in the namespace "+namespace, f.Sharder.Pods.Err)
	} else if images := images(f.Sharder.Pods.Value); len(images) > 1 {
		c.add(Finding{
			Reason: SharderImagesDiffer, Status: Warning, Object: "Deployment/" + namespace + "/sharder",
			Cause: "its pods run different images: " + prose.List(images),
			Next:  fmt.Sprintf("kubectl -n %s rollout status deployment/sharder", namespace),
		})
	}
}

// notLeading says since when nobody leads.
func notLeading(f *Facts, holder string, renewed time.Time) string {
	if holder == "" {
		return "no replica leads: " + consequence
	}
	return fmt.Sprintf("the leader %s has not renewed the lease for %s: %s", holder, f.Now.Sub(renewed).Round(time.Second), consequence)
}

// evaluateInProcess judges the in-process sharder of a ring.
func evaluateInProcess(c *Check, f *Facts, r *ring) {
	if len(r.sharders) == 0 {
		return
	}
	live := r.inProcessLeads(f.Now)
	switch {
	case live == nil && r.inProcess():
		lease := r.sharders[0]
		c.add(Finding{
			Reason: InProcessSharderNotLeading, Status: Failure, Ring: r.name, Object: "Lease/" + lease.Namespace + "/" + lease.Name,
			Cause: "the ring has an in-process sharder, but " + notLeading(f, holder(lease), renewTime(lease)),
			Next:  fmt.Sprintf("kubectl -n %s get pods, then read the logs of the controller; start it in mode in-process", lease.Namespace),
		})
	case live != nil && r.declared != nil && f.externalLeads():
		c.add(Finding{
			Reason: TwoSharders, Status: Warning, Ring: r.name, Object: r.object(),
			Cause: fmt.Sprintf("the external sharder and an in-process sharder (lease %s/%s) assign the same objects, which is safe but does the work twice",
				live.Namespace, live.Name),
			Next: fmt.Sprintf("run the instances in mode shard, or 'kubectl delete controllerring %s'", r.name),
		})
	case live != nil && r.declared != nil:
		c.add(Finding{
			Reason: UnusedControllerRing, Status: Warning, Ring: r.name, Object: r.object(),
			Cause: fmt.Sprintf("the ring has an in-process sharder (lease %s/%s), which does not read the ControllerRing, and no external sharder leads",
				live.Namespace, live.Name),
			Next: fmt.Sprintf("kubectl delete controllerring %s, or run the instances in mode shard and start the sharder", r.name),
		})
	}
}

// images returns the different images of pods that are not about to stop.
func images(pods []corev1.Pod) (found []string) {
	for i := range pods {
		if pods[i].DeletionTimestamp != nil {
			continue
		}
		for _, container := range pods[i].Spec.Containers {
			if container.Name == "sharder" {
				found = append(found, container.Image)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
