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

// object has the fields of an object that decisions need.
type object struct {
	namespace, name, version string
	uid                      types.UID
	main                     catalog.MainObject
	assignable               bool // whether it has a key
	generatedName            bool // the webhook cannot assign it
	forced                   bool // its drain exceeded the timeout, and the ring's policy is Move
	assignment.Object
}

// reduce drops all fields that no decision needs.
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
	owner, err := resource.MainObject(full)
	reduced.main, reduced.assignable = owner, err == nil
	return reduced
}

// fullName returns namespace/name, or the name of a cluster-scoped object.
func (o object) fullName() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// decide returns the decision for an object. It keeps an object if its owner looks dead to this process, but the API
// server says that it is alive.
func (p *pass) decide(ctx context.Context, resource *catalog.Resource, o object, live *liveness) assignment.Decision {
	if o.forced {
		return assignment.Decision{Action: assignment.Assign, Shard: p.members.Owner(o.main.Key())}
	}
	decision := p.prefer(ctx, resource, o)
	if decision.Action != assignment.Assign || o.Shard == "" {
		return decision
	}
	switch alive, err := live.alive(ctx, o.Shard); {
	case err != nil:
		p.fail(resource.Resource.GroupResource(), fmt.Errorf("checking whether shard %q is dead: %w", o.Shard, err))
		return assignment.Decision{Action: assignment.Keep}
	case alive: // this process is about to observe that it joined
		return assignment.Decision{Action: assignment.Keep}
	}
	return decision
}

// prefer returns the decision for an object according to the members that this process knows.
func (p *pass) prefer(ctx context.Context, resource *catalog.Resource, o object) assignment.Decision {
	if !o.assignable {
		return assignment.Decision{Action: assignment.Keep}
	}
	key := o.main.Key()
	desired := p.members.Owner(key)
	if resource.Main() {
		return assignment.DecideMain(o.Object, desired, p.members)
	}
	kind := resource.Resource.GroupResource()
	drainedShard := p.drains.shard(key)
	if drainedShard != "" && !p.members.Has(o.Shard) {
		// The controller may still be on its previous shard, which an orphaned child must follow.
		if shard := p.locateController(ctx, kind, o.main); p.members.Has(shard) {
			desired = shard
		}
	}
	if (p.collect || drainedShard != "" && drainedShard == o.Shard) && o.Shard != desired && p.members.Has(o.Shard) && !p.members.IsLeaving(o.Shard) {
		// The child moves when its controller has been released.
		if p.children.add(key, child{resource: resource, object: o}) || drainedShard == o.Shard {
			return assignment.Decision{Action: assignment.Keep}
		}
	}
	return assignment.DecideControlled(o.Object, desired, p.members, func() string { return p.locateController(ctx, kind, o.main) })
}

// patch returns the patch that applies a decision, with the version of the object as precondition.
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
