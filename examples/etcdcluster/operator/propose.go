package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// proposal is something that may be begun.
type proposal struct {
	action coordination.Action
	// plan says what to do to the members that are ready. It returns nothing if it is not the time.
	plan func(r *round, ready coordination.Members) []coordination.Step
}

// proposals are in the order in which they are tried: first what makes the system whole again.
var proposals = []proposal{
	{coordination.Removal, (*round).planRemoval},
	{coordination.Exclusion, (*round).planExclusion},
	{coordination.Inclusion, (*round).planInclusion},
	{coordination.Restart, (*round).planRestart},
}

// planRemoval removes the members of regions that do not return.
func (r *round) planRemoval(ready coordination.Members) []coordination.Step {
	maps.DeleteFunc(ready, func(id coordination.MemberID, _ coordination.Member) bool {
		_, excluded := r.wanted(coordination.PendingForExclusion)[id]
		return excluded // it goes in good order
	})
	return plan.ForLost(r.planned(), slices.Collect(maps.Keys(ready)))
}

// lostFirst is a member of a region that does not return and that the system can do without now. It is removed before
// anything else is begun.
func (r *round) lostFirst() coordination.MemberID {
	excluded := r.wanted(coordination.PendingForExclusion)
	for _, id := range slices.Sorted(maps.Keys(r.wanted(coordination.PendingForRemoval))) {
		if _, is := excluded[id]; is {
			continue
		}
		if m, known := r.find(id, ""); known && r.state.HasQuorum() && r.state.SparesForever(m.ID) {
			return id
		}
	}
	return ""
}

// planExclusion lets members go, each after the one that takes its place has come.
func (r *round) planExclusion(ready coordination.Members) []coordination.Step {
	return plan.ForReplacement(r.planned(), plan.Pairs(ready, r.wanted(coordination.ReadyForInclusion)))
}

// planInclusion lets members come. Those that take the place of others come with them.
func (r *round) planInclusion(ready coordination.Members) []coordination.Step {
	if len(r.wanted(coordination.PendingForExclusion)) > 0 {
		return nil
	}
	return plan.ForReplacement(r.planned(), plan.Pairs(nil, ready))
}

// planRestart restarts members.
func (r *round) planRestart(ready coordination.Members) []coordination.Step {
	return plan.ForRestart(r.planned(), slices.Collect(maps.Keys(ready)))
}

// propose begins something, if there is something to do, everybody is ready for it and nobody else does anything.
func (r *round) propose(ctx context.Context) error {
	if r.task != nil || r.finished || r.c == nil || r.state == nil || !r.state.Agreed {
		return nil
	}
	if r.global() && r.view.Intent != nil {
		return r.pickUp(ctx)
	}
	for _, p := range proposals {
		if err := r.try(ctx, p); err != nil || r.task != nil {
			return r.refused(err)
		}
		if p.action == coordination.Removal && r.lostFirst() != "" {
			return nil
		}
	}
	return nil
}

// pickUp goes on with what another operator has left behind.
func (r *round) pickUp(ctx context.Context) error {
	intent := r.view.Intent
	r.acting = fmt.Sprintf("%s by %s: step %d of %d", intent.Action, intent.By, min(intent.At+1, len(intent.Steps)), len(intent.Steps))
	r.lookIn(soon)
	grant, err := r.c.Resume(ctx)
	if err != nil {
		return r.refused(err)
	}
	r.note("PickedUp", fmt.Sprintf("Going on with the %s that %s has left at step %d.", intent.Action, intent.By, intent.At+1))
	r.task = &task{grant: grant}
	return nil
}

// try begins an action.
func (r *round) try(ctx context.Context, p proposal) error {
	ready, verdict := r.ready(p.action)
	if len(ready) == 0 {
		return nil
	}
	steps := p.plan(r, ready)
	if len(steps) == 0 {
		return nil
	}
	for i := range steps {
		r.address(&steps[i])
	}
	if reason := r.closedToBegin(steps); reason != "" {
		r.wait(fmt.Sprintf("%s waits: %s", p.action, reason), soon)
		return nil
	}
	grant, err := r.take(ctx, verdict, steps)
	if err != nil {
		return err
	}
	r.task = &task{grant: grant, action: p.action, steps: steps}
	r.acting = string(p.action)
	r.lookIn(soon)
	r.note("Acting", fmt.Sprintf("%s of %s begins, with token %d%s.", p.action, list(ready), grant.Token, without(verdict)))
	return nil
}

func (r *round) take(ctx context.Context, verdict *coordination.Verdict, steps []coordination.Step) (*coordination.Grant, error) {
	if verdict == nil {
		return r.c.Lock(ctx)
	}
	return r.c.Begin(ctx, verdict, steps)
}

// ready are the members that an action may be done to now. In local mode that is decided here alone.
func (r *round) ready(action coordination.Action) (coordination.Members, *coordination.Verdict) {
	if r.global() {
		verdict := r.c.Judge(r.view, action, "")
		if verdict.Open {
			return verdict.Members, verdict
		}
		if len(verdict.Waits) > 0 {
			r.wait(verdict.Summary(), verdict.Again)
		}
		return nil, verdict
	}
	pending, needed := action.Sets()
	members := maps.Clone(r.wanted(pending))
	if needed != "" {
		for id := range members {
			ready, is := r.wanted(needed)[id]
			if !is {
				return nil, nil
			}
			members[id] = ready
		}
	}
	return members, nil
}

// refused understands why something could not be begun: most of it is no error.
func (r *round) refused(err error) error {
	var held *coordination.HeldError
	switch {
	case errors.As(err, &held):
		r.wait(held.Error(), soon)
		return nil
	case errors.Is(err, coordination.ErrConflict):
		r.lookIn(soon)
		return nil
	case errors.Is(err, coordination.ErrNothingLeft):
		return nil
	case errors.Is(err, coordination.ErrDenied):
		r.denied = true
		r.wait(err.Error(), later)
		return nil
	}
	return err
}

func list(members coordination.Members) string {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(members)) {
		ids = append(ids, string(id))
	}
	return strings.Join(ids, ", ")
}

// without tells whom it is done without.
func without(verdict *coordination.Verdict) string {
	if verdict == nil || len(verdict.LeftOut) == 0 {
		return ""
	}
	var left []string
	for _, id := range slices.Sorted(maps.Keys(verdict.LeftOut)) {
		left = append(left, fmt.Sprintf("%s (%s)", id, verdict.LeftOut[id]))
	}
	return ", without " + strings.Join(left, " ")
}
