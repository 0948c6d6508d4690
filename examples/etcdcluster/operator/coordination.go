package operator

import (
	"context"
	"slices"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// operatorCoordination makes the settings of the coordination those of the spec, and tells the others what this
// region needs. In local mode it tells nobody.
func (r *round) operatorCoordination(ctx context.Context) error {
	if r.c == nil {
		return nil
	}
	spec := &r.cluster.Spec
	settings := coordination.Settings{
		Mode: coordination.Mode(spec.AutomationOptions.Mode()), Prefix: string(spec.ProcessGroupIDPrefix), Generation: r.cluster.Generation,
	}
	for _, name := range spec.AutomationOptions.DenyList {
		settings.Denied = append(settings.Denied, string(name))
	}
	before := r.c.Settings()
	if err := r.c.Configure(ctx, settings); err != nil {
		return inStore(err)
	}
	r.cluster.Status.Coordination = &etcdclusterv1alpha1.CoordinationStatus{
		Mode: spec.AutomationOptions.Mode(), Prefix: spec.ProcessGroupIDPrefix, Denied: spec.AutomationOptions.DenyList,
	}
	if !r.global() {
		return r.stayLocal(ctx, before)
	}
	if before.Mode != coordination.Global || before.Prefix != settings.Prefix {
		r.lookIn(soon) // what was read before is not about this
		return r.look(ctx)
	}
	if r.state == nil || !r.state.Agreed {
		return nil // what is needed is not known
	}
	if err := r.c.Declare(ctx, r.view, r.needs.wants); err != nil {
		return inStore(err)
	}
	return r.forgetLost(ctx)
}

// stayLocal gives up what was begun for all: others go on with it.
func (r *round) stayLocal(ctx context.Context, before coordination.Settings) error {
	if before.Mode == coordination.Global && r.task != nil {
		err := r.task.grant.Release(ctx)
		r.task = nil
		return inStore(err)
	}
	return nil
}

// forgetLost removes what regions that do not return have said last: nobody should wait for them.
func (r *round) forgetLost(ctx context.Context) error {
	for _, lost := range r.cluster.Spec.LostRegions {
		if r.view.Takes(string(lost)) || !slices.Contains(r.view.Left(), string(lost)) {
			continue
		}
		if err := coordination.Forget(ctx, r.store, "", r.cluster.SystemName(), string(lost)); err != nil {
			return r.refused(err)
		}
		r.note("Forgot", "What the region "+string(lost)+" had said was removed: it does not return.")
	}
	return nil
}
