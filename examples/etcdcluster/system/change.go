package system

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// AddLearner makes the system expect a member at a peer URL, which does not vote yet. It returns the ID that the
// member gets, or the one that it has if it is known already. Its name becomes known when it is started.
func (s *System) AddLearner(ctx context.Context, peerURL string) (ID, error) {
	var id ID
	err := s.change(ctx, func(ctx context.Context, state *State, leader *clientv3.Client) error {
		if m, found := state.At(peerURL); found {
			id = m.ID
			return nil
		}
		answer, err := leader.MemberAddAsLearner(ctx, []string{peerURL})
		if err != nil {
			return err
		}
		id = ID(answer.Member.ID)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("adding a learner at %s: %w", peerURL, err)
	}
	return id, nil
}

// Promote makes a learner vote. One that votes is left as it is. The error is ErrNotInSync for as long as the learner
// has too little of the data.
func (s *System) Promote(ctx context.Context, id ID) error {
	err := s.change(ctx, func(ctx context.Context, state *State, leader *clientv3.Client) error {
		m, found := state.Member(id)
		switch {
		case !found:
			return ErrNotMember
		case !m.Learner:
			return nil
		}
		_, err := leader.MemberPromote(ctx, uint64(id))
		return err
	})
	if err != nil {
		return fmt.Errorf("promoting %s: %w", id, err)
	}
	return nil
}

// MoveLeader makes a member lead instead of another. It does nothing if it leads. The error is ErrOtherLeader if
// neither of them leads: then the reason for it may be gone.
func (s *System) MoveLeader(ctx context.Context, from, to ID) error {
	err := s.change(ctx, func(ctx context.Context, state *State, leader *clientv3.Client) error {
		switch {
		case state.Leader == to:
			return nil
		case state.Leader != from:
			return fmt.Errorf("%w: %s", ErrOtherLeader, state.Leader)
		}
		if m, found := state.Member(to); !found {
			return ErrNotMember
		} else if m.Learner {
			return errors.New("a learner cannot lead")
		}
		_, err := leader.MoveLeader(ctx, uint64(to))
		return err
	})
	if err != nil {
		return fmt.Errorf("making %s lead instead of %s: %w", to, from, err)
	}
	return nil
}

// Remove makes the system do without a member for good. One that it does not know is no error.
func (s *System) Remove(ctx context.Context, id ID) error {
	err := s.change(ctx, func(ctx context.Context, state *State, leader *clientv3.Client) error {
		if _, found := state.Member(id); !found {
			return nil
		}
		_, err := leader.MemberRemove(ctx, uint64(id))
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("removing %s: %w", id, err)
	}
	return nil
}

// change looks at the system, and lets do tell the leader what to change.
func (s *System) change(ctx context.Context, do func(ctx context.Context, state *State, leader *clientv3.Client) error) error {
	state, err := s.State(ctx)
	if err != nil {
		return err
	}
	leader, found := state.Member(state.Leader)
	if !state.Agreed || !found || !leader.Health.Reachable {
		return ErrNoLeader
	}
	client, err := s.client(leader.ClientURLs[0])
	if err != nil {
		return err
	}
	// A leader that hangs from now on must not hold up the caller.
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	return translate(do(ctx, state, client))
}

// translate makes of etcd's errors what callers tell apart.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrMemberLearnerNotReady):
		return fmt.Errorf("%w: %w", ErrNotInSync, err)
	case errors.Is(err, rpctypes.ErrUnhealthy), errors.Is(err, rpctypes.ErrMemberNotEnoughStarted), errors.Is(err, rpctypes.ErrTooManyLearners):
		return fmt.Errorf("%w: %w", ErrNotNow, err)
	case errors.Is(err, rpctypes.ErrMemberNotFound):
		return fmt.Errorf("%w: %w", ErrNotMember, err)
	case errors.Is(err, rpctypes.ErrNotLeader), errors.Is(err, rpctypes.ErrNoLeader), errors.Is(err, rpctypes.ErrLeaderChanged):
		return fmt.Errorf("%w: %w", ErrNoLeader, err)
	}
	return err
}
