package moves

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// object is the little that is kept of an object while a pass deals with it.
type object struct {
	namespace, name, version string
	uid                      types.UID
	owner                    catalog.Owner
	assignable               bool // whether it has a key at all
	generatedName            bool // the webhook cannot assign these
	forced                   bool // its drain exceeded the timeout, and the ring's policy is to move it then
	assignment.Object
}

// reduce forgets everything that no decision needs.
func reduce(resource *catalog.Resource, ringName string, full *metav1.PartialObjectMetadata) object {
	destination, draining := full.Labels[shardingv1alpha1.LabelDrain(ringName)]
	reduced := object{
		namespace: full.Namespace, name: full.Name, version: full.ResourceVersion, uid: full.UID,
		generatedName: full.GenerateName != "",
		Object: assignment.Object{
			Shard:    full.Labels[shardingv1alpha1.LabelShard(ringName)],
			Draining: draining, Destination: destination,
		},
	}
	owner, err := resource.Owner(full)
	reduced.owner, reduced.assignable = owner, err == nil
	return reduced
}

// fullName is how people name the object.
func (o object) fullName() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// decide says what to do with an object. An object is kept if its shard, dead by what this process has seen, turns out to
// be alive.
func (p *pass) decide(ctx context.Context, resource *catalog.Resource, o object, read *liveness) assignment.Decision {
	if o.forced {
		return assignment.Decision{Action: assignment.Assign, Shard: p.members.Owner(o.owner.Key())}
	}
	decision := p.prefer(ctx, resource, o)
	if decision.Action != assignment.Assign || o.Shard == "" {
		return decision
	}
	switch alive, err := read.alive(ctx, o.Shard); {
	case err != nil:
		p.fail(resource.Resource.GroupResource(), fmt.Errorf("checking whether shard %q is dead: %w", o.Shard, err))
		return assignment.Decision{Action: assignment.Keep}
	case alive: // and this process is about to see it join
		return assignment.Decision{Action: assignment.Keep}
	}
	return decision
}

// prefer says what to do with an object by what this process knows of the shards.
func (p *pass) prefer(ctx context.Context, resource *catalog.Resource, o object) assignment.Decision {
	if !o.assignable {
		return assignment.Decision{Action: assignment.Keep}
	}
	key := o.owner.Key()
	desired := p.members.Owner(key)
	if resource.Main() {
		return assignment.DecideMain(o.Object, desired, p.members)
	}
	kind := resource.Resource.GroupResource()
	asked := p.drains.shard(key)
	if asked != "" && !p.members.Has(o.Shard) {
		// The controller may still be where it was, and a child without an owner goes there.
		if shard := p.locateOwner(ctx, kind, o.owner); p.members.Has(shard) {
			desired = shard
		}
	}
	if (p.collect || asked != "" && asked == o.Shard) && o.Shard != desired && p.members.Has(o.Shard) && !p.members.IsLeaving(o.Shard) {
		// It moves when its controller has been released.
		if p.children.add(key, child{resource: resource, object: o}) || asked == o.Shard {
			return assignment.Decision{Action: assignment.Keep}
		}
	}
	return assignment.DecideControlled(o.Object, desired, p.members, func() string { return p.locateOwner(ctx, kind, o.owner) })
}

// patch is the write that carries a decision out, on the very version that it was about.
func patch(ringName, version string, decision assignment.Decision) ([]byte, error) {
	labels := map[string]any{}
	switch decision.Action {
	case assignment.Assign, assignment.Move:
		labels[shardingv1alpha1.LabelShard(ringName)] = decision.Shard
		labels[shardingv1alpha1.LabelDrain(ringName)] = nil
	case assignment.Drain:
		labels[shardingv1alpha1.LabelDrain(ringName)] = decision.Shard
	case assignment.Undrain:
		labels[shardingv1alpha1.LabelDrain(ringName)] = nil
	case assignment.Keep:
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version, "labels": labels}})
}
