package operator

import (
	"context"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// task is what this operator carries out at the moment: for all, with an intent that others can go on with, or in
// local mode for itself.
type task struct {
	grant *coordination.Grant
	// action, steps and at are those of local mode. When this process dies they are planned anew.
	action coordination.Action
	steps  []coordination.Step
	at     int
}

func (t *task) global() bool { return t.grant.Intent() != nil }

func (t *task) plan() (coordination.Action, []coordination.Step, int) {
	if intent := t.grant.Intent(); intent != nil {
		return intent.Action, intent.Steps, intent.At
	}
	return t.action, t.steps, t.at
}

// step is what is to be done now.
func (t *task) step() *coordination.Step {
	if _, steps, at := t.plan(); at < len(steps) {
		return &steps[at]
	}
	return nil
}

// advance goes on to the next step, with what is planned now. That may be nothing: then what was planned before must
// not stay, because an order is carried out from the moment that it is written.
func (t *task) advance(ctx context.Context, rest []coordination.Step) error {
	if t.global() {
		return t.grant.Advance(ctx, append([]coordination.Step{}, rest...)...)
	}
	t.at++
	t.steps = append(t.steps[:t.at:t.at], rest...)
	return nil
}
