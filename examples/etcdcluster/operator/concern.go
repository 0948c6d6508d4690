package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// concern is what one of the small reconcilers of a round looks after.
type concern struct {
	// action is what it begins, if anything. Plan says what to do to the members that are ready: nothing if it is not the
	// time.
	action coordination.Action
	plan   func(r *round, ready coordination.Members) []coordination.Step
	// steps are those that it carries out, of what this operator does for all.
	steps map[string]step
}

// concerns are all of them.
func concerns() []concern {
	return []concern{exclusion, coordinators, restarting, removal, inclusion}
}

// work does the next step of what is being done, if it is one of this concern's, or begins something. After that nothing
// else is decided on what was seen before.
func (r *round) work(ctx context.Context, of concern) error {
	if r.moved || r.c == nil || r.state == nil || !r.state.Agreed {
		return nil
	}
	if r.task == nil {
		return r.begin(ctx, of)
	}
	step := r.task.step()
	if step == nil || of.steps[step.Do] == nil {
		return nil
	}
	r.moved = true
	result, err := of.steps[step.Do](r, ctx, *step)
	return r.conclude(ctx, *step, result, err)
}

// begin begins something, if there is something to do, everybody is ready for it and nobody else does anything.
func (r *round) begin(ctx context.Context, of concern) error {
	if of.action == "" {
		return nil
	}
	if of.action != coordination.Removal && r.lostFirst() != "" {
		return nil // that makes the system whole again
	}
	ready, verdict := r.ready(of.action)
	if len(ready) == 0 {
		return nil
	}
	steps := of.plan(r, ready)
	if len(steps) == 0 {
		return nil
	}
	for i := range steps {
		r.address(&steps[i])
	}
	if reason := r.closedToBegin(steps); reason != "" {
		r.wait(fmt.Sprintf("%s waits: %s", of.action, reason), soon)
		return nil
	}
	r.moved = true
	grant, err := r.take(ctx, verdict, steps)
	if err != nil {
		return r.refused(err)
	}
	r.task = &task{grant: grant, action: of.action, steps: steps}
	r.acting = string(of.action)
	r.lookIn(soon)
	r.note("Acting", fmt.Sprintf("%s of %s begins, with token %d%s.", of.action, list(ready), grant.Token, without(verdict)))
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
			return maps.Clone(verdict.Members), verdict
		}
		if len(verdict.Waits) > 0 {
			r.wait(calm(verdict), verdict.Again)
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
	return inStore(err)
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
