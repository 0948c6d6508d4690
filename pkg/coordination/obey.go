package coordination

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// standBy only finishes the orders that this process has accepted: a newer process of the participant works.
func (p *pass) standBy(ctx context.Context, why error) error {
	p.result.Superseded = true
	p.wait(p.c.name, why.Error())
	p.again(busyAgain)
	if grant := p.c.held(); grant != nil {
		p.c.run = nil
		return grant.Release(ctx)
	}
	for _, id := range sortedKeys(p.view.Answers) {
		if p.view.Accepted(id) && p.view.Answers[id].Session == p.c.process() {
			p.mine = append(p.mine, id)
		}
	}
	return p.obey(ctx)
}

// finishFirst carries out the order that this participant has accepted, before it may leave: without its answer, the order would
// count as not accepted.
func (p *pass) finishFirst(ctx context.Context, why error) error {
	p.wait(p.c.name, why.Error())
	p.again(busyAgain)
	p.mine = p.view.acceptedBy(p.c.currentSettings().Prefix)
	if grant := p.c.held(); grant != nil { // another participant continues the plan
		p.c.run = nil
		return errors.Join(grant.Release(ctx), p.obey(ctx))
	}
	return p.obey(ctx)
}

// standBack releases the lock, so that another participant continues: this one cannot observe its members.
func (p *pass) standBack(ctx context.Context, because error) error {
	if grant := p.c.held(); grant != nil {
		p.note("StoodBack", "Released the lock, because this participant cannot continue: "+because.Error())
		p.c.run = nil
		return errors.Join(because, grant.Release(ctx))
	}
	return because
}

// obey carries out the order for this participant's members, if there is one.
func (p *pass) obey(ctx context.Context) error {
	order := p.c.order(p.view, p.mine...)
	if order == nil {
		return nil
	}
	p.again(busyAgain)
	if !order.Accepted {
		if err := p.c.accept(ctx, order); err != nil {
			return ignoreConflict(err)
		}
		p.note("Accepted", fmt.Sprintf("Accepted the order to %s under token %d.", order.Step, order.Token))
	}
	if order.Wait {
		return nil // until all have accepted it
	}
	ctx, cancel := p.c.whileAlive(ctx)
	defer cancel()
	err := p.system.Execute(ctx, Task{Step: order.Step, ID: p.c.taskID(order.Intent, order.At), Token: order.Token})
	answer := Answer{Done: true}
	if failed, is := errors.AsType[*failedError](err); is {
		answer.Failure = failed.reason
	} else if fenced, is := errors.AsType[*fencedError](err); is {
		if fenced.seen < order.Token {
			return fenced.unexplained(order.Step, order.Token)
		}
		answer = Answer{Fenced: fenced.seen}
	} else if err != nil {
		reason, err := why(err)
		p.waitIf(order.String(), reason)
		return err
	}
	if err := p.c.outcome(ctx, order, answer); err != nil {
		return ignoreConflict(err)
	}
	switch {
	case answer.Fenced > 0:
		p.note("Fenced", fmt.Sprintf("The system refused to %s under token %d: it has seen token %d.", order.Step, order.Token, answer.Fenced))
	case answer.Failure != "":
		p.note("Failed", fmt.Sprintf("Failed to %s: %s", order.Step, answer.Failure))
	default:
		p.note("Executed", fmt.Sprintf("Carried out %s under token %d.", order.Step, order.Token))
	}
	p.again(atOnce)
	return nil
}

func (c *Coordinator) taskID(intent int64, at int) string {
	return fmt.Sprintf("%s/%d/%d", c.system, intent, at)
}

// whileAlive ends a context when the session of this process is lost: the others count it as dead then.
func (c *Coordinator) whileAlive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	if session := c.lastSession(); session != nil {
		go func() {
			select {
			case <-session.Lost():
				cancel(kv.ErrSessionLost)
			case <-done:
			}
		}()
	}
	return ctx, func() { close(done); cancel(context.Canceled) }
}
