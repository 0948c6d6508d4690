package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// explanation explains why an object has its owner. It checks the cases in the order of the sharder
// (internal/assignment), and a test compares the two.
type explanation struct {
	*objectInRing
	shards   *shardSet
	sharders []Sharder
	place    *Place
	// key is the key that is hashed. notSharded is why the object has none.
	key        string
	notSharded error
	now        time.Time
}

// explain returns why the object has its owner, and what happens next.
func (j *explanation) explain() (Reason, string) {
	reason, message := j.reason()
	return reason, message + deletion(j.object, j.now)
}

func (j *explanation) reason() (Reason, string) {
	switch {
	case j.notSharded != nil:
		return NotSharded, fmt.Sprintf("The ring ignores the object: %s.%s", notSharded(j.notSharded), j.leftoverLabel())
	case !j.selected:
		return NotSelected, fmt.Sprintf("The ring does not select the namespace %s: %s.%s", j.object.Namespace, j.selector(), j.leftoverLabel())
	case j.ring.leasesUnreadable:
		return Unknown, "It is not known which shard should own the object, because the Leases of the shards cannot be read."
	case j.resource.Main():
		return j.main()
	}
	return j.controlled()
}

func notSharded(err error) string {
	return strings.TrimPrefix(err.Error(), catalog.ErrNotSharded.Error()+": ")
}

// leftoverLabel explains the label of an object that the ring ignores.
func (j *explanation) leftoverLabel() string {
	if j.place.Shard == "" {
		return ""
	}
	return fmt.Sprintf(" Its shard label is left over: %s reconciles the object as long as it has the label.", j.place.Shard)
}

// selector returns which namespaces the ring selects.
func (j *explanation) selector() string {
	if spec, _ := j.ring.spec(); spec.Spec.NamespaceSelector != nil {
		return "its namespaceSelector is " + j.ring.spread.Namespaces.String()
	}
	return "by default, " + j.ring.spread.Namespaces.String()
}

// main explains an object of a main resource.
func (j *explanation) main() (Reason, string) {
	p := j.place
	switch {
	case p.Shard == "" && p.Desired == "":
		return NoShards, "No shard owns the object, because none is available. Start the controller."
	case p.Shard == "":
		return Unassigned, fmt.Sprintf("The object is unassigned; %s should own it. %s", p.Desired, j.nextStep(atRescue))
	case !j.shards.members.Has(p.Shard):
		return j.orphaned()
	case j.shards.members.IsLeaving(p.Shard):
		return j.leaving()
	case p.Shard == p.Desired && p.Draining != nil:
		return UndrainPending, fmt.Sprintf("%s was asked to release the object, but should keep it now, so the sharder withdraws the request. %s",
			p.Shard, j.nextStep(atResync))
	case p.Shard == p.Desired:
		return j.asDesired()
	case p.Draining != nil:
		return j.draining()
	}
	if p.Desired == "" {
		return NoShards, p.Shard + " owns the object although the ring no longer accepts the shard. It keeps the object until another shard is available."
	}
	return DrainPending, fmt.Sprintf("%s owns the object, but %s should, because the members of the ring have changed. The sharder asks %s to release it. %s",
		p.Shard, p.Desired, p.Shard, j.nextStep(atResync))
}

// orphaned explains an object whose label names a shard that is not a member.
func (j *explanation) orphaned() (Reason, string) {
	reason, cause := j.absentShard()
	if j.place.Desired == "" {
		return NoShards, cause + " The object is not reconciled, because no other shard is available. Start the controller."
	}
	next := j.place.Desired
	if controller := j.place.Controller; controller != nil && j.shards.members.Has(controller.Shard) {
		next = controller.Shard
	}
	return reason, fmt.Sprintf("%s The object is orphaned and not reconciled; %s should own it. %s", cause, next, j.nextStep(atRescue))
}

// absentShard explains why a shard is not a member.
func (j *explanation) absentShard() (Reason, string) {
	shard := j.shards.shard(j.place.Shard)
	since := "" // unknown
	if shard.Since != nil {
		since = " " + j.ago(shard.Since.Time) + " ago"
	}
	switch {
	case shard.State == StateGone:
		return ShardGone, fmt.Sprintf("The shard %s in its label has no Lease: it was deleted long ago, or has never existed.", shard.Name)
	case shard.State == StateRefused:
		return ShardRefused, fmt.Sprintf("The ring refuses the Lease of the shard %s in its label: %s.", shard.Name, shard.Refused)
	case shard.holder == "":
		return ShardDead, fmt.Sprintf("The shard %s in its label left the ring%s.", shard.Name, since)
	case shard.holder == shardingv1alpha1.IdentityShardLeaseController:
		return ShardDead, fmt.Sprintf("The shard %s in its label is dead: the sharder took over its Lease%s.", shard.Name, since)
	}
	return ShardDead, fmt.Sprintf("The Lease of the shard %s in its label is held by %s, so the shard is not a member.", shard.Name, shard.holder)
}

func (j *explanation) leaving() (Reason, string) {
	if j.place.Desired == "" {
		return ShardLeaving, j.place.Shard + " is leaving the ring, and no other shard is available to which it could hand the object over."
	}
	return ShardLeaving, fmt.Sprintf("%s is leaving the ring and hands the object over to %s.", j.place.Shard, j.place.Desired)
}

// asDesired explains an object whose owner is right. The owner may be about to die.
func (j *explanation) asDesired() (Reason, string) {
	shard := j.shards.shard(j.place.Shard)
	age := shard.unrenewedFor(j.now)
	if age == 0 {
		return AsDesired, shard.Name + " owns the object, as the ring requires."
	}
	message := fmt.Sprintf("%s owns the object, as the ring requires, but has not renewed its Lease for %s, by the clock of this computer", shard.Name, duration.HumanDuration(age))
	if left := shard.Expires.Sub(j.now); left > 0 {
		message += fmt.Sprintf("; the Lease expires in %s.", duration.HumanDuration(left))
	} else {
		message += fmt.Sprintf("; the Lease expired %s ago.", j.ago(shard.Expires.Time))
	}
	if next := ownerWithout(j.shards.members, shard.Name, j.key); next != "" {
		message += fmt.Sprintf(" If %s is dead, %s gets the object.", shard.Name, next)
	} else {
		message += " No other shard is available that could get the object."
	}
	if !anyActive(j.sharders, "") {
		message += " " + j.nextStep(atRescue)
	}
	return ShardNotRenewing, message
}

func (j *explanation) draining() (Reason, string) {
	p := j.place
	message := p.Shard + " was asked"
	if p.Draining.Since != nil {
		message += fmt.Sprintf(" %s ago", j.ago(p.Draining.Since.Time))
	}
	message += " to release the object, and has not done so yet"
	if p.Desired != "" {
		message += fmt.Sprintf("; %s gets it next", p.Desired)
	}
	message += "."
	if to := p.Draining.To; to != "" && to != p.Desired {
		message += fmt.Sprintf(" The request still names %s.", to)
	}
	if p.Draining.Since != nil && j.now.Sub(p.Draining.Since.Time) > slowDrain {
		message += fmt.Sprintf(" That is slow: check the logs of %s, and restart it if it hangs.", p.Shard)
	}
	return Draining, message
}

// controlled explains an object of a controlled resource. The owner of its controller should own it.
func (j *explanation) controlled() (Reason, string) {
	p := j.place
	switch {
	case j.controller == nil || j.controller.err != nil:
		return Unknown, "The owner of its controller cannot be read."
	case j.controller.object == nil:
		return ControllerGone, fmt.Sprintf("Its controller %s does not exist. The garbage collector of Kubernetes deletes the object.", j.controller.Reference)
	}
	controller, name := p.Controller.Shard, j.controller.String()
	switch {
	case p.Shard == "" && p.Desired == "":
		return NoShards, "No shard owns the object, because none is available. Start the controller."
	case p.Shard == "":
		return Unassigned, fmt.Sprintf("The object is unassigned; the owner of its controller %s should own it. %s", name, j.nextStep(atRescue))
	case !j.shards.members.Has(p.Shard):
		return j.orphaned()
	case j.shards.members.IsLeaving(p.Shard):
		return j.leaving()
	case p.Shard == p.Desired && controller != p.Shard:
		return AsDesired, fmt.Sprintf("%s owns the object, as the ring requires. Its controller %s is about to follow.", p.Shard, name)
	case p.Shard == p.Desired:
		return j.asDesired()
	case p.Shard == controller:
		return WithController, fmt.Sprintf("%s owns the object and its controller %s. Both should move to %s; the object moves with its controller.", p.Shard, name, p.Desired)
	case controller == "" || !j.shards.members.Has(controller):
		return WithController, fmt.Sprintf("Its controller %s has no live owner. The object stays with %s until it has one.", name, p.Shard)
	}
	return MovePending, fmt.Sprintf("%s owns the object, but its controller %s has moved to %s. The object follows. %s", p.Shard, name, controller, j.nextStep(atResync))
}

// The sentences that say when the sharder acts.
const (
	// atRescue is for objects without a live owner.
	atRescue = "The sharder does this within half a minute."
	// atResync is for objects that should have another owner.
	atResync = "The sharder does this at its next resync: soon after the members have changed, otherwise every 5 minutes by default."
)

// nextStep returns when the sharder acts, or why it does not.
func (j *explanation) nextStep(when string) string {
	switch {
	case !anyActive(j.sharders, ""):
		return "But no sharder is active for this ring, so nothing happens until one is."
	case activityUnknown(j.sharders):
		return "But it is not known whether a sharder is active: it has no Lease in the namespace " + shardingv1alpha1.NamespaceSystem + "."
	case j.ring.condition(shardingv1alpha1.ConditionReady) != "":
		return "But the ring is not ready: " + j.ring.condition(shardingv1alpha1.ConditionReady)
	case j.ring.condition(shardingv1alpha1.ConditionAssigned) != "":
		return "But the ring reports: " + j.ring.condition(shardingv1alpha1.ConditionAssigned)
	}
	return when
}

func (j *explanation) ago(t time.Time) string { return duration.HumanDuration(max(0, j.now.Sub(t))) }
