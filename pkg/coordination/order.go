package coordination

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// memberOrder is an order of the holder of the lock to a participant, for some of its members.
type memberOrder struct {
	// Step is the current step, with these members only.
	Step
	// Intent and At identify the step for every holder: a participant that has carried it out does not repeat it under another
	// token.
	Intent    int64
	StepIndex int
	Token     int64
	// Accepted is set when this process has accepted the order, WaitForOthers when it must not carry it out before all other
	// participants have accepted it.
	Accepted, WaitForOthers bool

	version int64
	view    *View
}

// order returns the current order for some members of this participant, or nil.
func (c *Coordinator) order(view *View, ownMembers ...MemberID) *memberOrder {
	step := view.Intent.step()
	if step == nil || !step.Order || view.Lock != nil && !view.IntentHeld() {
		return nil // also while another participant holds the lock for another action
	}
	order := &memberOrder{
		Step: *step, Intent: view.Intent.ID, StepIndex: view.Intent.StepIndex, Token: view.Intent.Token, Accepted: true,
		WaitForOthers: step.Together && !view.Intent.AllAccepted, version: view.entries[c.keys.intent()].Version, view: view,
	}
	order.Members = nil
	for _, id := range step.Members {
		answer, ok := view.Answers[id]
		ok = ok && answer.isFor(view.Intent)
		switch {
		case !slices.Contains(ownMembers, id), ok && answer.Done, ok && answer.Fenced >= view.Intent.Token:
			continue // another participant's member, answered, or refused under this token
		case answer.pending(view.Intent) && answer.Session != c.sessionID() && view.isSessionAlive(answer.Session):
			continue // another process of this participant carries it out
		}
		if answer.pending(view.Intent) && answer.Session == c.sessionID() {
			order.Token = min(order.Token, answer.Token) // the system may refuse orders that were accepted before a fence
		} else {
			order.Accepted = false
		}
		order.Members = append(order.Members, id)
	}
	if len(order.Members) == 0 {
		return nil
	}
	if !order.Accepted {
		order.Token = view.Intent.Token
	}
	return order
}

// sessionID returns the ID of the session with which this process is registered.
func (c *Coordinator) sessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered.session
}

// isSessionAlive reports whether the process of a session is alive.
func (v *View) isSessionAlive(session string) bool {
	return slices.ContainsFunc(v.processes, func(i Instance) bool { return i.Session == session })
}

// accept records that this process carries out an order, which it must do before it begins. It returns ErrConflict if the order was
// changed or withdrawn in between. From then on the holder waits for the answer, unless the system can refuse the old token or an
// administrator abandons the action.
func (c *Coordinator) accept(ctx context.Context, order *memberOrder) error {
	if order.Accepted {
		return nil
	}
	unchanged := []kv.Condition{
		kv.IsAt(c.keys.intent(), order.version), kv.IsAt(c.keys.lock(), order.view.entries[c.keys.lock()].Version),
	}
	err := c.writeAnswer(ctx, order, unchanged, Answer{Intent: order.Intent, Step: order.StepIndex, Token: order.Token, Session: c.sessionID()})
	if err != nil {
		return fmt.Errorf("accepting the order to %s: %w", order.Step, err)
	}
	order.Accepted = true
	return nil
}

// answer records the outcome of an order. It returns ErrConflict if another process has accepted the order in between.
func (c *Coordinator) answer(ctx context.Context, order *memberOrder, result Answer) error {
	switch {
	case c.currentSettings().Mode != Global:
		return fmt.Errorf("answering the order to %s: %w", order.Step, errLocal)
	case !order.Accepted:
		return fmt.Errorf("answering the order to %s: it was not accepted", order.Step)
	}
	result.Intent, result.Step, result.Token, result.Session = order.Intent, order.StepIndex, order.Token, c.sessionID()
	if err := c.writeAnswer(ctx, order, nil, result); err != nil {
		return fmt.Errorf("answering the order to %s: %w", order.Step, err)
	}
	return nil
}

// writeAnswer writes an answer for all members of an order, if their answers are unchanged since the order was read. It uses several
// transactions if necessary: each member has its own answer.
func (c *Coordinator) writeAnswer(ctx context.Context, order *memberOrder, conditions []kv.Condition, answer Answer) error {
	entries := order.view.entries
	for part := range slices.Chunk(order.Members, maxOperations) {
		t := kv.Transaction{If: slices.Clone(conditions)}
		prefixes := map[string]bool{}
		for _, id := range part {
			prefix := c.answerPrefix(order, id)
			key := c.keys.answers(prefix, string(id))
			prefixes[prefix] = true
			t.If = append(t.If, kv.IsAt(key, entries[key].Version))
			t.Then = append(t.Then, kv.Put(key, encode(answer)))
		}
		for _, prefix := range sortedKeys(prefixes) {
			// The marker says whether entries are missing, so it must be unchanged since it was read.
			t.If = append(t.If, c.prefixUnchanged(order.view.snapshot(), prefix))
			t.Then = append(t.Then, c.keepMarker(entries, prefix))
		}
		revision, err := c.store.Commit(ctx, t)
		if err != nil {
			return err
		}
		for _, operation := range t.Then {
			entries[operation.Key] = kv.Entry{Value: operation.Value, Version: revision}
		}
	}
	return nil
}

// answerPrefix returns the prefix of the answer for a member: the one under which the order was accepted, even if this participant
// has changed its prefix since.
func (c *Coordinator) answerPrefix(order *memberOrder, id MemberID) string {
	if prefix := order.view.answerPrefixes[id]; order.view.Answers[id].isFor(order.view.Intent) && order.view.participantName(prefix) == c.name {
		return prefix
	}
	return c.currentSettings().Prefix
}

// carryOutOrder carries out the current order for the members of this participant, if any.
func (p *pass) carryOutOrder(ctx context.Context) error {
	order := p.c.order(p.view, p.ownMembers...)
	if order == nil {
		return nil
	}
	p.requeueAfter(busyInterval)
	if !order.Accepted {
		if err := p.c.accept(ctx, order); err != nil {
			return ignoreConflict(err)
		}
		p.addEvent("Accepted", fmt.Sprintf("Accepted the order to %s under token %d.", order.Step, order.Token))
	}
	if order.WaitForOthers {
		return nil
	}
	ctx, cancel := p.c.whileAlive(ctx)
	defer cancel()
	err := p.system.Execute(ctx, Task{Step: order.Step, ID: p.c.taskID(order.Intent, order.StepIndex), Token: order.Token})
	answer := Answer{Done: true}
	if failed, ok := errors.AsType[*failedError](err); ok {
		answer.Failure = failed.reason
	} else if fenced, ok := errors.AsType[*fencedError](err); ok {
		if fenced.seen < order.Token {
			return fenced.contradiction(order.Step, order.Token)
		}
		answer = Answer{Fenced: fenced.seen}
	} else if err != nil {
		reason, err := notYetReason(err)
		p.addWaitReasonIf(order.String(), reason)
		return err
	}
	if err := p.c.answer(ctx, order, answer); err != nil {
		return ignoreConflict(err)
	}
	switch {
	case answer.Fenced > 0:
		p.addEvent("Fenced", fmt.Sprintf("The system refused to %s under token %d: it has seen token %d.", order.Step, order.Token, answer.Fenced))
	case answer.Failure != "":
		p.addEvent("Failed", fmt.Sprintf("Failed to %s: %s", order.Step, answer.Failure))
	default:
		p.addEvent("Executed", fmt.Sprintf("Carried out %s under token %d.", order.Step, order.Token))
	}
	p.requeueAfter(immediately)
	return nil
}

func (c *Coordinator) taskID(intent int64, at int) string {
	return fmt.Sprintf("%s/%d/%d", c.system, intent, at)
}

// whileAlive returns a context that ends when the session of this process is lost, because it counts as dead then.
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
