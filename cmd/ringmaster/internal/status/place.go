package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// objectInRing is all that was read about an object in one ring.
type objectInRing struct {
	ring     *ringState
	resource *catalog.Resource
	object   *metav1.PartialObjectMetadata
	// selected is whether the ring selects its namespace.
	selected bool
	// controller is the controller of a controlled object.
	controller *relatedObject
	// children are the objects whose controller it is.
	children []relatedObject
}

// relatedObject is a controller or a child.
type relatedObject struct {
	Reference
	object *metav1.PartialObjectMetadata // nil if it does not exist or could not be read
	err    error
}

// place returns the owner of the object, the shard that should own it, and why they differ.
func (s *objectInRing) place(now time.Time) Place {
	j := &explanation{objectInRing: s, shards: s.ring.shardSet(now), sharders: s.ring.activeSharders(now), now: now}
	p := Place{Ring: s.ring.name, Ownership: s.ownership(s.object, j.shards)}
	if value, draining := s.object.Labels[shardingv1alpha1.LabelDrain(s.ring.name)]; draining {
		p.Draining = &Drain{Since: drainSince(s.object, s.ring.name)}
		if value != "true" { // which other sharders write
			p.Draining.To = value
		}
	}
	if s.controller != nil {
		shown := s.show(s.controller, j.shards)
		p.Controller = &shown
	}
	for i := range s.children {
		p.Children = append(p.Children, s.show(&s.children[i], j.shards))
	}
	owner, err := s.resource.MainObject(s.object)
	if err == nil && s.selected && !s.ring.leasesUnreadable {
		j.key = owner.Key()
		p.Desired = j.shards.members.Owner(j.key)
	}
	j.place, j.notSharded = &p, err
	p.Reason, p.Message = j.explain()
	p.Agrees = p.agrees()
	return p
}

// agrees reports whether the owner is certainly the one that the object should have.
func (p *Place) agrees() bool {
	switch p.Reason {
	case AsDesired, WithController, OwnedByLeader:
		return true
	case NotSharded, NotSelected:
		return p.Shard == ""
	}
	return false
}

// ownership returns the owner of an object.
func (s *objectInRing) ownership(object *metav1.PartialObjectMetadata, c *shardSet) Ownership {
	label := shardingv1alpha1.LabelShard(s.ring.name)
	shard := object.Labels[label]
	if shard == "" {
		return Ownership{}
	}
	h := Ownership{Shard: shard, State: c.shard(shard).displayState()}
	h.Since, h.SinceExact = labelSince(object, label)
	return h
}

// The states of members that are assigned no objects.
const (
	stateLeaving  = "leaving"
	stateCordoned = "cordoned"
)

// displayState returns the state that is shown to people.
func (s *Shard) displayState() string {
	switch {
	case s.Leaving:
		return stateLeaving
	case s.Cordoned && s.State == string(membership.Ready):
		return stateCordoned
	}
	return s.State
}

func (s *objectInRing) show(r *relatedObject, c *shardSet) RelatedObject {
	shown := RelatedObject{Reference: r.Reference}
	switch {
	case r.err != nil:
		shown.Error = r.err.Error()
	case r.object == nil:
		shown.Error = "not found"
	default:
		shown.Ownership = s.ownership(r.object, c)
	}
	return shown
}

// ownerWithout returns the shard that should own a key if one shard were not available.
func ownerWithout(members *ring.Ring, without, key string) string {
	var others []string
	for _, shard := range members.Shards() {
		if shard != without {
			others = append(others, shard)
		}
	}
	return ring.New(others).Owner(key)
}
