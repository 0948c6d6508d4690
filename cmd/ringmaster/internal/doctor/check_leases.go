package doctor

import (
	"fmt"
	"time"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// leaseDeletedAfter is the time after which the Lease of a shard that has left should be deleted: the
// sharder does so one minute after its expiry.
const leaseDeletedAfter = 5 * time.Minute

// evaluateLeases judges the Leases of shards.
func evaluateLeases(f *Facts, rings []*ring) *Check {
	c := &Check{Name: checkLeases}
	c.requireRings(f)
	live := 0
	for _, r := range rings {
		if !r.exists() && !f.Rings.known() {
			continue // there may be a ControllerRing
		}
		for i := range r.shards {
			s := &r.shards[i]
			if s.refusal != members.NotRefused {
				c.add(r.refused(s))
			} else if found := r.without(s, f.Now); found != nil {
				c.add(*found)
			} else if s.held {
				live++
			}
		}
	}
	return c.message("%s of live shards", prose.Count(live, "lease"))
}

func (r *ring) leaseFinding(s *shard, reason Reason, status Status, cause, next string) Finding {
	return Finding{Reason: reason, Status: status, Ring: r.name, Object: "Lease/" + s.Namespace + "/" + s.Name, Cause: cause, Next: next}
}

// refused is a Lease that does not make a shard.
func (r *ring) refused(s *shard) Finding {
	inspect := fmt.Sprintf("kubectl -n %s get lease,pod %s", s.Namespace, s.Name)
	switch s.refusal {
	case members.NameTooLong:
		return r.leaseFinding(s, LeaseNameTooLong, Failure,
			fmt.Sprintf("the name has %d characters, and a shard's name at most %d: the ring refuses the shard", len(s.Name), shardingv1alpha1.MaxNameLength),
			"use a shorter name for the shard (shard.Options.Name; by default it is the name of the pod)")
	case members.WrongNamespace:
		return r.leaseFinding(s, LeaseNamespaceRefused, Failure,
			"the ring accepts shards only from the namespaces "+prose.List(r.shardNamespaces()),
			fmt.Sprintf("add %s to spec.shardNamespaces of the ring, or remove the shard", s.Namespace))
	case members.NameTaken:
		return r.leaseFinding(s, LeaseNameTaken, Failure,
			fmt.Sprintf("the ring has an older shard of this name in the namespace %s: both would reconcile the same objects", s.namesake),
			fmt.Sprintf("use another name for this shard; if the older shard is gone for good, 'kubectl -n %s delete lease %s'", s.namesake, s.Name))
	case members.DurationTooLong:
		return r.leaseFinding(s, LeaseDurationTooLong, Failure,
			fmt.Sprintf("the lease duration is %s, and at most %s is accepted: the objects of a dead shard would wait for that long", duration(s.Lease), membership.MaxDuration),
			"set a shorter lease duration in the controller (spec.leaseDurationSeconds is in seconds, not in milliseconds)")
	case members.RingFull:
		return r.leaseFinding(s, RingFull, Failure,
			fmt.Sprintf("the ring has %d shards with older Leases, which is the maximum: this shard gets no objects", membership.MaxShards),
			"run fewer shards, or split the ring")
	case members.NoRing, members.NotRefused:
	}
	status := Failure
	if !s.held || s.silent {
		status = Warning
	}
	return r.leaseFinding(s, LeaseWithoutRing, status,
		fmt.Sprintf("the label names the ring %s, but there is neither a ControllerRing nor an in-process sharder of this name", r.name),
		"create the ControllerRing, or correct the ring's name in the controller: kubectl get controllerrings; "+inspect)
}

// without is a Lease without a live shard, or nil.
func (r *ring) without(s *shard, now time.Time) *Finding {
	var found Finding
	logs := fmt.Sprintf("kubectl -n %s logs %s --previous, and check that the pod runs", s.Namespace, s.Name)
	switch {
	case !s.held && now.Sub(renewTime(s.Lease)) > duration(s.Lease)+leaseDeletedAfter:
		found = r.leaseFinding(s, LeaseNotDeleted, Warning,
			fmt.Sprintf("the shard stopped %s ago, and the sharder should have deleted its lease", age(renewTime(s.Lease), now)),
			"check that the sharder runs and may delete Leases (checks sharder and permissions)")
	case holder(s.Lease) == shardingv1alpha1.IdentityShardLeaseController:
		found = r.leaseFinding(s, ShardDead, Warning,
			fmt.Sprintf("the shard stopped renewing its lease without releasing it, and the sharder took it over %s ago", age(renewTime(s.Lease), now)), logs)
	case s.held && s.silent:
		found = r.leaseFinding(s, ShardSilent, Warning,
			fmt.Sprintf("the shard has not renewed its lease for %s (duration %s), and no sharder has taken it over", age(renewTime(s.Lease), now), duration(s.Lease)),
			logs+"; if it does, check the clock of its node")
	default:
		return nil
	}
	return &found
}

func age(since, now time.Time) time.Duration { return max(0, now.Sub(since)).Round(time.Second) }

// clockTolerance is how far the clock of a shard may be ahead.
const clockTolerance = time.Minute

// evaluateClocks compares the times in Leases with the clock of the API server.
func evaluateClocks(f *Facts, rings []*ring) *Check {
	c := &Check{Name: checkClocks}
	if !f.Leases.known() {
		c.unreadable("Leases of shards", f.Leases.Err)
		return c
	}
	for _, r := range rings {
		for i := range r.shards {
			s := &r.shards[i]
			if ahead := renewTime(s.Lease).Sub(f.Now); ahead > clockTolerance {
				c.add(r.leaseFinding(s, ClockAhead, Warning,
					fmt.Sprintf("renewTime is %s ahead of the clock of the API server", ahead.Round(time.Second)),
					"synchronize the clocks of the nodes (NTP): the sharder does not compare clocks, but people and tools do"))
			}
		}
	}
	return c.message("no renewTime is more than %s ahead of the clock of the API server", clockTolerance)
}
