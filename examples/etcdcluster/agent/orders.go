//go:build unix

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
)

// Start starts a member, with the arguments that are set. One that runs is left alone. Should it be one that runs only
// until it crashes the next time, then it has the new launch afterwards.
func (a *Agent) Start(ctx context.Context, id string, order Order, launch Launch) (Member, error) {
	if err := checkLaunch(launch); err != nil {
		return Member{}, err
	}
	return a.order(ctx, id, order, func(m *member, now record) error {
		if now.Phase == Running && a.look(m).pid != 0 {
			return a.locking(func() error {
				if err := a.save(m, func(r *record) { r.LastOrder, r.Launch = order.ID, launch }); err != nil {
					return err
				}
				m.keeper.use(commandLine(m.record, a.folder.member(id), a.options.Peers))
				return nil
			})
		}
		return a.anew(m, func(r *record) { r.LastOrder, r.Launch = order.ID, launch })
	})
}

// Restart ends the process of a member, if there is one, and starts it with the arguments that are set.
func (a *Agent) Restart(ctx context.Context, id string, order Order) (Member, error) {
	return a.order(ctx, id, order, func(m *member, now record) error {
		if now.Launch == (Launch{}) {
			return refuse(ReasonNotStarted, "the member %s was never started: start it", id)
		}
		return a.anew(m, func(r *record) { r.LastOrder = order.ID })
	})
}

// Stop ends the process of a member and keeps its data.
func (a *Agent) Stop(ctx context.Context, id string, order Order) (Member, error) {
	return a.order(ctx, id, order, func(m *member, _ record) error {
		err := a.locking(func() error {
			if err := notDeleting(m); err != nil {
				return err
			}
			return a.save(m, func(r *record) {
				r.LastOrder = order.ID
				if r.Phase == Running {
					r.Phase = Stopped
				}
			})
		})
		if err != nil {
			return err
		}
		a.end(m)
		return nil
	})
}

// Delete ends the process of a member and removes its data and addresses. One that is not there is no error.
func (a *Agent) Delete(ctx context.Context, id string, order Order) error {
	_, err := a.order(ctx, id, order, func(m *member, _ record) error {
		err := a.locking(func() error {
			return a.save(m, func(r *record) { r.LastOrder, r.Phase = order.ID, Deleting })
		})
		if err != nil {
			return err
		}
		a.end(m)
		return a.finishDelete(m)
	})
	if errors.Is(err, ErrNotPrepared) {
		return nil
	}
	return err
}

// order carries one out when it is its turn.
func (a *Agent) order(ctx context.Context, id string, order Order, do func(m *member, now record) error) (Member, error) {
	if err := checkOrder(id, order); err != nil {
		return Member{}, err
	}
	a.orders.Lock()
	defer a.orders.Unlock()
	if err := ctx.Err(); err != nil {
		return Member{}, fmt.Errorf("who gave the order has not waited for it: %w", err)
	}
	m, now, err := a.admit(id, order)
	if err != nil {
		return Member{}, err
	}
	if now.LastOrder != order.ID || now.Phase == Deleting {
		a.options.Log.Info("Carrying out an order", "member", id, "system", order.System, "order", order.ID, "token", order.Token)
		if err := do(m, now); err != nil {
			return Member{}, err
		}
		a.options.Log.Info("Carried out an order", "member", id, "system", order.System, "order", order.ID, "token", order.Token)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.describe(m), nil
}

// admit looks at the token of an order, and at the member that it is about.
func (a *Agent) admit(id string, order Order) (*member, record, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, record{}, errors.New("the agent is about to end: give the order to the next one")
	}
	m, err := a.known(id)
	if err == nil && m.System != order.System {
		return nil, record{}, refuse(ReasonTaken, "the member %s is one of the system %q, not of %.80q", id, m.System, order.System)
	}
	// An order for a member that is not there shows its token too.
	if err := a.fence(order.System, order.Token); err != nil {
		return nil, record{}, err
	}
	if err != nil {
		return nil, record{}, err
	}
	return m, m.record, nil
}

func checkOrder(id string, order Order) error {
	const most = 512
	switch {
	case order.Token <= 0:
		return refuse(ReasonInvalid, "an order needs the token of the lock under which it is given, not %d", order.Token)
	case order.System == "":
		return refuse(ReasonInvalid, "an order needs the system that its token counts for")
	case order.ID == "" || len(order.ID) > most:
		return refuse(ReasonInvalid, "an order needs an ID of at most %d characters", most)
	}
	return checkID(id)
}

// fence refuses a token that is lower than one of the system before, and remembers one that is higher.
func (a *Agent) fence(system string, token int64) error {
	highest, known := a.identity.Tokens[system]
	if !known {
		highest = a.identity.Token
	}
	switch {
	case token < highest:
		return &RefusedError{Reason: ReasonFenced, Seen: highest, Message: fmt.Sprintf(
			"the token %d is older than %d, which was seen before: the lock belongs to another operator by now, or its counter was reset", token, highest)}
	case token > highest:
		next := a.identity
		next.Tokens = maps.Clone(next.Tokens)
		if next.Tokens == nil {
			next.Tokens = map[string]int64{}
		}
		next.Tokens[system] = token
		if err := a.folder.saveIdentity(next); err != nil {
			return fmt.Errorf("remembering the token: %w", err)
		}
		a.identity = next
	}
	return nil
}

// anew ends the process of a member and starts it with the arguments that are set. That is written first: should the
// agent die in between, its processes do too, and the next agent starts them like this.
func (a *Agent) anew(m *member, change func(*record)) error {
	err := a.locking(func() error {
		if err := notDeleting(m); err != nil {
			return err
		}
		return a.save(m, func(r *record) {
			change(r)
			r.Phase, r.Applied, r.AppliedVersion = Running, maps.Clone(r.Args), r.Version
		})
	})
	if err != nil {
		return err
	}
	a.end(m)
	a.launch(m)
	return nil
}

// launch makes the process of a member run. Only orders, and the beginning, do this.
func (a *Agent) launch(m *member) {
	a.mu.Lock()
	defer a.mu.Unlock()
	dir := a.folder.member(m.ID)
	m.keeper = keep(a.etcds.path(m.AppliedVersion), commandLine(m.record, dir, a.options.Peers), filepath.Join(dir, logFile))
}

// end waits for the end of a member's process. Others can look at the members meanwhile.
func (a *Agent) end(m *member) {
	a.mu.Lock()
	keeper := m.keeper
	a.mu.Unlock()
	keeper.stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	m.keeper = nil
}

func (a *Agent) finishDelete(m *member) error {
	if err := a.folder.removeData(m.ID); err != nil {
		return fmt.Errorf("removing the data of %s: %w", m.ID, err)
	}
	return a.locking(func() error {
		if err := a.save(m, func(r *record) { *r = record{ID: r.ID, Phase: deleted, LastOrder: r.LastOrder} }); err != nil {
			return err
		}
		m.client.release()
		m.peer.release()
		return nil
	})
}

func (a *Agent) look(m *member) processState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return m.keeper.look()
}

func (a *Agent) locking(do func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return do()
}
