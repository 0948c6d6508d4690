//go:build unix

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
)

// Start starts a member with the arguments that are set. If its process runs, the new launch is used after its
// next crash.
func (a *Agent) Start(ctx context.Context, id string, order Order, launch Launch) (Member, error) {
	if err := checkLaunch(launch); err != nil {
		return Member{}, err
	}
	return a.carryOut(ctx, id, order, func(m *member, now record) error {
		if now.Phase == Running && a.processStatus(m).pid != 0 {
			return a.withLock(func() error {
				if err := a.save(m, func(r *record) { r.LastOrder, r.Launch = order.ID, launch }); err != nil {
					return err
				}
				m.supervisor.setArgs(commandLine(m.record, a.folder.member(id), a.options.Peers))
				return nil
			})
		}
		return a.restartProcess(m, func(r *record) { r.LastOrder, r.Launch = order.ID, launch })
	})
}

// Restart stops the process of a member, if any, and starts it with the arguments that are set.
func (a *Agent) Restart(ctx context.Context, id string, order Order) (Member, error) {
	return a.carryOut(ctx, id, order, func(m *member, now record) error {
		if now.Launch == (Launch{}) {
			return refuse(ReasonNotStarted, "member %s was never started: start it", id)
		}
		return a.restartProcess(m, func(r *record) { r.LastOrder = order.ID })
	})
}

// Stop stops the process of a member and keeps its data.
func (a *Agent) Stop(ctx context.Context, id string, order Order) (Member, error) {
	return a.carryOut(ctx, id, order, func(m *member, _ record) error {
		err := a.withLock(func() error {
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
		a.stopProcess(m)
		return nil
	})
}

// Delete stops the process of a member and removes its data and addresses. It does nothing if the member does
// not exist.
func (a *Agent) Delete(ctx context.Context, id string, order Order) error {
	_, err := a.carryOut(ctx, id, order, func(m *member, _ record) error {
		err := a.withLock(func() error {
			return a.save(m, func(r *record) { r.LastOrder, r.Phase = order.ID, Deleting })
		})
		if err != nil {
			return err
		}
		a.stopProcess(m)
		return a.finishDelete(m)
	})
	if errors.Is(err, ErrNotPrepared) {
		return nil
	}
	return err
}

// carryOut carries out an order when it is its turn.
func (a *Agent) carryOut(ctx context.Context, id string, order Order, do func(m *member, now record) error) (Member, error) {
	if err := checkOrder(id, order); err != nil {
		return Member{}, err
	}
	a.orderMu.Lock()
	defer a.orderMu.Unlock()
	if err := ctx.Err(); err != nil {
		return Member{}, fmt.Errorf("the client did not wait for the order: %w", err)
	}
	m, now, err := a.checkAndFence(id, order)
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

// checkAndFence checks the token and the member of an order.
func (a *Agent) checkAndFence(id string, order Order) (*member, record, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, record{}, errors.New("the agent is stopping: repeat the order when it is back")
	}
	m, err := a.find(id)
	if err == nil && m.System != order.System {
		return nil, record{}, refuse(ReasonTaken, "member %s belongs to system %q, not %.80q", id, m.System, order.System)
	}
	// The token counts even if the member does not exist.
	if err := a.fence(order.System, order.Token); err != nil {
		return nil, record{}, err
	}
	if err != nil {
		return nil, record{}, err
	}
	return m, m.record, nil
}

func checkOrder(id string, order Order) error {
	const maxIDLength = 512
	switch {
	case order.Token <= 0:
		return refuse(ReasonInvalid, "invalid token %d: an order needs the fencing token of the lock", order.Token)
	case order.System == "":
		return refuse(ReasonInvalid, "the system is missing: an order needs the system of its token")
	case order.ID == "" || len(order.ID) > maxIDLength:
		return refuse(ReasonInvalid, "an order needs an ID of at most %d characters", maxIDLength)
	}
	return checkID(id)
}

// fence refuses a token that is lower than the highest one of the system, and records a higher one.
func (a *Agent) fence(system string, token int64) error {
	highest, known := a.identity.Tokens[system]
	if !known {
		highest = a.identity.Token
	}
	switch {
	case token < highest:
		return &RefusedError{Reason: ReasonFenced, Seen: highest, Message: fmt.Sprintf(
			"token %d is older than %d, which was seen before: another operator holds the lock now, or its counter was reset", token, highest)}
	case token > highest:
		next := a.identity
		next.Tokens = maps.Clone(next.Tokens)
		if next.Tokens == nil {
			next.Tokens = map[string]int64{}
		}
		next.Tokens[system] = token
		if err := a.folder.saveIdentity(next); err != nil {
			return fmt.Errorf("saving the token: %w", err)
		}
		a.identity = next
	}
	return nil
}

// restartProcess stops the process of a member and starts it with the arguments that are set. It saves them
// first: if the agent dies in between, the next agent starts the process with them.
func (a *Agent) restartProcess(m *member, change func(*record)) error {
	err := a.withLock(func() error {
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
	a.stopProcess(m)
	a.launch(m)
	return nil
}

// launch starts the process of a member. It is called only for orders, and when the agent starts.
func (a *Agent) launch(m *member) {
	a.mu.Lock()
	defer a.mu.Unlock()
	dir := a.folder.member(m.ID)
	m.supervisor = startSupervisor(a.versions.path(m.AppliedVersion), commandLine(m.record, dir, a.options.Peers), filepath.Join(dir, logFile))
}

// stopProcess waits until a member's process has ended. It does not hold the mutex meanwhile.
func (a *Agent) stopProcess(m *member) {
	a.mu.Lock()
	supervisor := m.supervisor
	a.mu.Unlock()
	supervisor.stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	m.supervisor = nil
}

func (a *Agent) finishDelete(m *member) error {
	if err := a.folder.removeData(m.ID); err != nil {
		return fmt.Errorf("removing the data of %s: %w", m.ID, err)
	}
	return a.withLock(func() error {
		if err := a.save(m, func(r *record) { *r = record{ID: r.ID, Phase: deleted, LastOrder: r.LastOrder} }); err != nil {
			return err
		}
		m.client.release()
		m.peer.release()
		return nil
	})
}

func (a *Agent) processStatus(m *member) processState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return m.supervisor.status()
}

func (a *Agent) withLock(do func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return do()
}
