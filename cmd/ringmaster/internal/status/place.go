package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// subject is an object in one ring, with all that was read about it.
type subject struct {
	ring     *facts
	resource *catalog.Resource
	object   *metav1.PartialObjectMetadata
	// selected is whether the ring spreads the objects of its namespace.
	selected bool
	// controller is the object that decides where this one belongs, if that is another one.
	controller *relative
	// children are the objects that this one controls.
	children []relative
}

// relative is a controller or a child as it was read.
type relative struct {
	Reference
	object *metav1.PartialObjectMetadata // nil if it does not exist, or with an error
	err    error
}

// place says where the object is, where it should be, and why.
func (s *subject) place(now time.Time) Place {
	j := &judgement{subject: s, cast: s.ring.cast(now), sharders: s.ring.whoShards(now), now: now}
	p := Place{Ring: s.ring.name, Held: s.held(s.object, j.cast)}
	if value, draining := s.object.Labels[shardingv1alpha1.LabelDrain(s.ring.name)]; draining {
		p.Draining = &Drain{Since: drainSince(s.object, s.ring.name)}
		if value != "true" { // as other sharders write, to whom it means nothing
			p.Draining.To = value
		}
	}
	if s.controller != nil {
		shown := s.show(s.controller, j.cast)
		p.Controller = &shown
	}
	for i := range s.children {
		p.Children = append(p.Children, s.show(&s.children[i], j.cast))
	}
	owner, err := s.resource.MainObject(s.object)
	if err == nil && s.selected && !s.ring.blind {
		j.key = owner.Key()
		p.Desired = j.cast.members.Owner(j.key)
	}
	j.place, j.notSpread = &p, err
	p.Reason, p.Message = j.judge()
	p.Agrees = p.agrees()
	return p
}

// agrees tells whether label and ring say the same, as far as that is known.
func (p *Place) agrees() bool {
	switch p.Reason {
	case Settled, WithController, Led:
		return true
	case NotSpread, NotSelected:
		return p.Shard == ""
	}
	return false
}

// held is who has an object.
func (s *subject) held(object *metav1.PartialObjectMetadata, c *cast) Held {
	label := shardingv1alpha1.LabelShard(s.ring.name)
	shard := object.Labels[label]
	if shard == "" {
		return Held{}
	}
	h := Held{Shard: shard, State: c.shard(shard).shown()}
	h.Since, h.SinceExact = labelSince(object, label)
	return h
}

// What is shown of a shard that is in the ring and gets no new objects.
const (
	stateLeaving  = "leaving"
	stateCordoned = "cordoned"
)

// shown is the state as people see it.
func (s *Shard) shown() string {
	switch {
	case s.Leaving:
		return stateLeaving
	case s.Cordoned && s.State == string(membership.Ready):
		return stateCordoned
	}
	return s.State
}

func (s *subject) show(r *relative, c *cast) Relative {
	shown := Relative{Reference: r.Reference}
	switch {
	case r.err != nil:
		shown.Error = r.err.Error()
	case r.object == nil:
		shown.Error = "it does not exist"
	default:
		shown.Held = s.held(r.object, c)
	}
	return shown
}

// heir is who would get an object if its shard were not there.
func heir(members *ring.Ring, without, key string) string {
	var others []string
	for _, shard := range members.Shards() {
		if shard != without {
			others = append(others, shard)
		}
	}
	return ring.New(others).Owner(key)
}
