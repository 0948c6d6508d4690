package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// judgement finds the words for where an object is. It goes through the cases in the order in which the
// sharder does (internal/assignment), and a test compares the two.
type judgement struct {
	*subject
	cast     *cast
	sharders []Sharder
	place    *Place
	// key is what the object is hashed by; notSpread is why it has none.
	key       string
	notSpread error
	now       time.Time
}

// judge says why the object is where it is.
func (j *judgement) judge() (Reason, string) {
	reason, words := j.reason()
	return reason, words + deletion(j.object, j.now)
}

func (j *judgement) reason() (Reason, string) {
	switch {
	case j.notSpread != nil:
		return NotSpread, fmt.Sprintf("The ring has nothing to do with it: %s.%s", notSpread(j.notSpread), j.left())
	case !j.selected:
		return NotSelected, fmt.Sprintf("The ring does not spread objects of the namespace %s: %s.%s", j.object.Namespace, j.selector(), j.left())
	case j.ring.blind:
		return NotKnown, "Whether it is where it belongs is not known, because the shards' Leases cannot be read."
	case j.resource.Main():
		return j.main()
	}
	return j.controlled()
}

func notSpread(err error) string {
	return strings.TrimPrefix(err.Error(), catalog.ErrNotSharded.Error()+": ")
}

// left tells of the label of an object that the ring leaves alone.
func (j *judgement) left() string {
	if j.place.Shard == "" {
		return ""
	}
	return fmt.Sprintf(" Its label is left over; %s works on it as long as it has it.", j.place.Shard)
}

// selector says which namespaces the ring selects.
func (j *judgement) selector() string {
	if spec, _ := j.ring.spec(); spec.Spec.NamespaceSelector != nil {
		return "its namespaceSelector is " + j.ring.spread.Namespaces.String()
	}
	return "by default, " + j.ring.spread.Namespaces.String()
}

// main judges an object of a main resource.
func (j *judgement) main() (Reason, string) {
	p := j.place
	switch {
	case p.Shard == "" && p.Desired == "":
		return NoShards, "Nobody works on it: the ring has no live shard. Start the controller."
	case p.Shard == "":
		return Unassigned, fmt.Sprintf("It has no shard yet, and %s is to get it. %s", p.Desired, j.due(soon))
	case !j.cast.members.Has(p.Shard):
		return j.absent()
	case j.cast.members.IsLeaving(p.Shard):
		return j.leaving()
	case p.Shard == p.Desired && p.Draining != nil:
		return UndrainDue, fmt.Sprintf("%s was asked to let it go, but the ring says by now that it may stay. %s", p.Shard, j.due(later))
	case p.Shard == p.Desired:
		return j.settled()
	case p.Draining != nil:
		return j.draining()
	}
	if p.Desired == "" {
		return NoShards, p.Shard + " has it, which the ring no longer takes, and keeps it until the ring has another shard."
	}
	return DrainDue, fmt.Sprintf("%s has it, and the ring says %s since its members have changed. %s is to be asked to let it go. %s",
		p.Shard, p.Desired, p.Shard, j.due(later))
}

// absent judges an object whose shard is not in the ring.
func (j *judgement) absent() (Reason, string) {
	reason, words := j.obituary()
	if j.place.Desired == "" {
		return NoShards, words + " Nobody works on the object, because the ring has no other live shard. Start the controller."
	}
	next := j.place.Desired
	if controller := j.place.Controller; controller != nil && j.cast.members.Has(controller.Shard) {
		next = controller.Shard
	}
	return reason, fmt.Sprintf("%s Nobody works on the object, and %s is to get it. %s", words, next, j.due(soon))
}

// obituary says what became of a shard that is not in the ring.
func (j *judgement) obituary() (Reason, string) {
	shard := j.cast.shard(j.place.Shard)
	since := "" // when it is not known
	if shard.Since != nil {
		since = " " + j.ago(shard.Since.Time) + " ago"
	}
	switch {
	case shard.State == StateGone:
		return ShardGone, fmt.Sprintf("Its label names the shard %s, which has no Lease: it is long gone, or there never was one.", shard.Name)
	case shard.State == StateRefused:
		return ShardRefused, fmt.Sprintf("Its label names %s, which is no shard of the ring: %s.", shard.Name, shard.Refused)
	case shard.holder == "":
		return ShardDead, fmt.Sprintf("Its shard %s has left the ring%s.", shard.Name, since)
	case shard.holder == shardingv1alpha1.IdentityShardLeaseController:
		return ShardDead, fmt.Sprintf("Its shard %s is dead: the sharder took its Lease over%s.", shard.Name, since)
	}
	return ShardDead, fmt.Sprintf("The Lease of its shard %s is held by %s and not by the shard, which is thus not in the ring.", shard.Name, shard.holder)
}

func (j *judgement) leaving() (Reason, string) {
	if j.place.Desired == "" {
		return ShardLeaving, j.place.Shard + " is leaving, and there is no other shard to hand it to."
	}
	return ShardLeaving, fmt.Sprintf("%s is leaving, and hands it over by itself, to %s.", j.place.Shard, j.place.Desired)
}

// settled judges an object that is where the ring says. Its shard may be dying.
func (j *judgement) settled() (Reason, string) {
	shard := j.cast.shard(j.place.Shard)
	silent := shard.silence(j.now)
	if silent == 0 {
		return Settled, "It is where the ring says."
	}
	words := fmt.Sprintf("It is where the ring says, but %s has not renewed its Lease for %s, by this computer's clock", shard.Name, duration.HumanDuration(silent))
	if left := shard.Expires.Sub(j.now); left > 0 {
		words += fmt.Sprintf("; it expires in %s.", duration.HumanDuration(left))
	} else {
		words += fmt.Sprintf("; it expired %s ago.", j.ago(shard.Expires.Time))
	}
	if next := heir(j.cast.members, shard.Name, j.key); next != "" {
		words += fmt.Sprintf(" If %s does not come back, %s gets the object.", shard.Name, next)
	} else {
		words += " There is no other shard that could get the object."
	}
	if !atWork(j.sharders, "") {
		words += " " + j.due(soon)
	}
	return ShardSilent, words
}

func (j *judgement) draining() (Reason, string) {
	p := j.place
	words := p.Shard + " was asked"
	if p.Draining.Since != nil {
		words += fmt.Sprintf(" %s ago", j.ago(p.Draining.Since.Time))
	}
	words += " to let it go, and has not yet"
	if p.Desired != "" {
		words += fmt.Sprintf("; then %s gets it", p.Desired)
	}
	words += "."
	if to := p.Draining.To; to != "" && to != p.Desired {
		words += fmt.Sprintf(" The request still names %s.", to)
	}
	const long = time.Minute
	if p.Draining.Since != nil && j.now.Sub(p.Draining.Since.Time) > long {
		words += fmt.Sprintf(" That is long: look at the logs of %s, and restart it if it hangs.", p.Shard)
	}
	return Draining, words
}

// controlled judges an object of a controlled resource: it belongs where its controller is.
func (j *judgement) controlled() (Reason, string) {
	p := j.place
	switch {
	case j.controller == nil || j.controller.err != nil:
		return NotKnown, "Where its controller is cannot be read."
	case j.controller.object == nil:
		return ControllerGone, fmt.Sprintf("Its controller %s does not exist any more. Kubernetes' garbage collector deletes it.", j.controller.Reference)
	}
	controller, name := p.Controller.Shard, j.controller.String()
	switch {
	case p.Shard == "" && p.Desired == "":
		return NoShards, "Nobody works on it: the ring has no live shard. Start the controller."
	case p.Shard == "":
		return Unassigned, fmt.Sprintf("It has no shard yet, and is to get that of its controller %s. %s", name, j.due(soon))
	case !j.cast.members.Has(p.Shard):
		return j.absent()
	case j.cast.members.IsLeaving(p.Shard):
		return j.leaving()
	case p.Shard == p.Desired && controller != p.Shard:
		return Settled, fmt.Sprintf("It is where the ring says, before its controller %s, which is on its way.", name)
	case p.Shard == p.Desired:
		return j.settled()
	case p.Shard == controller:
		return WithController, fmt.Sprintf("It is with its controller %s, and moves when that does. The ring says %s for both.", name, p.Desired)
	case controller == "" || !j.cast.members.Has(controller):
		return WithController, fmt.Sprintf("Its controller %s has no live shard at the moment. It stays until that has one.", name)
	}
	return MoveDue, fmt.Sprintf("Its controller %s is with %s already, and it is to follow. %s", name, controller, j.due(later))
}

// pace is how soon the sharder does something that is to be done.
type pace string

const (
	// soon is for objects that nobody works on, which the sharder looks for all the time.
	soon pace = "The sharder does that within half a minute."
	// later is for objects that merely should be elsewhere.
	later pace = "The sharder does that with its next look at all objects: soon after a change of members, or else every 5 minutes by default."
)

// due says when what is to be done is done, or why it is not.
func (j *judgement) due(when pace) string {
	switch {
	case !atWork(j.sharders, ""):
		return "But no sharder is at work in this ring, so nothing happens until one is."
	case unseen(j.sharders):
		return "But whether a sharder is at work is not known: there is no Lease of it in the namespace " + shardingv1alpha1.NamespaceSystem + "."
	case j.ring.condition(shardingv1alpha1.ConditionReady) != "":
		return "But the ring is not ready: " + j.ring.condition(shardingv1alpha1.ConditionReady)
	case j.ring.condition(shardingv1alpha1.ConditionAssigned) != "":
		return "The ring says: " + j.ring.condition(shardingv1alpha1.ConditionAssigned)
	}
	return string(when)
}

func (j *judgement) ago(t time.Time) string { return duration.HumanDuration(max(0, j.now.Sub(t))) }
