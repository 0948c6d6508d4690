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

// object is the little that is kept of an object while it is being dealt with.
type object struct {
	namespace, name, version string
	uid                      types.UID
	owner                    catalog.Owner
	assigned                 bool // whether it has an owner at all
	assignment.Object
}

// reduce forgets everything that no decision needs.
func reduce(resource *catalog.Resource, ringName string, full *metav1.PartialObjectMetadata) object {
	destination, draining := full.Labels[shardingv1alpha1.LabelDrain(ringName)]
	reduced := object{
		namespace: full.Namespace, name: full.Name, version: full.ResourceVersion, uid: full.UID,
		Object: assignment.Object{
			Shard:    full.Labels[shardingv1alpha1.LabelShard(ringName)],
			Draining: draining, Destination: destination,
		},
	}
	owner, err := resource.Owner(full)
	reduced.owner, reduced.assigned = owner, err == nil
	return reduced
}

// decide says what is to happen to an object. What is to be taken from a shard because that is dead stays
// if the shard is alive after all.
func (p *pass) decide(ctx context.Context, resource *catalog.Resource, o object, w *witness) assignment.Decision {
	decision := p.prefer(ctx, resource, o)
	if decision.Action != assignment.Assign || o.Shard == "" {
		return decision
	}
	switch alive, err := w.saw(ctx, o.Shard); {
	case err != nil:
		p.fail(fmt.Errorf("looking whether %s is dead: %w", o.Shard, err))
		return assignment.Decision{Action: assignment.Keep}
	case alive: // and this process is about to hear of it
		return assignment.Decision{Action: assignment.Keep}
	}
	return decision
}

// prefer says what is to happen to an object by what this process knows of the shards.
func (p *pass) prefer(ctx context.Context, resource *catalog.Resource, o object) assignment.Decision {
	if !o.assigned {
		return assignment.Decision{Action: assignment.Keep}
	}
	desired := p.members.Owner(o.owner.Key())
	if resource.Main() {
		return assignment.Main(o.Object, desired, p.members)
	}
	asked := p.drains.shard(o.owner.Key())
	if asked != "" && asked == o.Shard {
		// It was asked to let the controller go, and may have done so meanwhile; if so, the next look finds it.
		return assignment.Decision{Action: assignment.Keep}
	}
	if asked != "" && !p.members.Has(o.Shard) {
		// The controller may still be where it was, and a child without a shard belongs there.
		if shard := p.locate(ctx, o.owner); p.members.Has(shard) {
			desired = shard
		}
	}
	return assignment.Controlled(o.Object, desired, p.members, func() string { return p.locate(ctx, o.owner) })
}

// patch is the write that carries a decision out, on the very version that was decided about.
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
