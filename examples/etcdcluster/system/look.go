package system

import (
	"context"
	"fmt"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// State asks the system who belongs to it, and each of its members how it is. Members that do not answer are in it
// with the reason. It is an error only when nobody answers at all.
func (s *System) State(ctx context.Context) (*State, error) {
	state, err := s.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking at the system: %w", err)
	}
	var asked sync.WaitGroup
	var mu sync.Mutex
	for i := range state.Members {
		asked.Go(func() {
			health, revision := s.ask(ctx, state.Members[i])
			mu.Lock()
			defer mu.Unlock()
			state.Members[i].Health = health
			state.Revision = max(state.Revision, revision)
		})
	}
	asked.Wait()
	state.judge()
	s.learn(state)
	return state, nil
}

// list asks for the members: all that is known of them if a quorum is there, otherwise what one of them remembers.
func (s *System) list(ctx context.Context) (*State, error) {
	endpoints := s.Endpoints()
	remembered := make(chan *State, 1)
	within, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	go func() {
		// Asked at the same time: who has no quorum should not have to wait twice to see what is left.
		state, _ := first(within, endpoints, s.listAt(clientv3.WithSerializable()))
		remembered <- state
	}()
	state, err := first(within, endpoints, s.listAt())
	if err == nil {
		state.Agreed = true
		return state, nil
	}
	if state := <-remembered; state != nil {
		return state, nil
	}
	return nil, err
}

// listAt asks one address.
func (s *System) listAt(options ...clientv3.OpOption) func(ctx context.Context, endpoint string) (*State, error) {
	return func(ctx context.Context, endpoint string) (*State, error) {
		client, err := s.client(endpoint)
		if err != nil {
			return nil, err
		}
		answer, err := client.MemberList(ctx, options...)
		if err != nil {
			return nil, err
		}
		state := &State{Cluster: ID(answer.Header.ClusterId)}
		if err := s.belongs(state.Cluster); err != nil {
			return nil, err
		}
		for _, m := range answer.Members {
			state.Members = append(state.Members, Member{
				ID: ID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner,
			})
		}
		return state, nil
	}
}

// ask lets a member tell how it is.
func (s *System) ask(ctx context.Context, m Member) (health Health, revision int64) {
	if len(m.ClientURLs) == 0 {
		return Health{Problem: "it has never been started"}, 0
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	answer, err := first(ctx, m.ClientURLs, func(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
		client, err := s.client(endpoint)
		if err != nil {
			return nil, err
		}
		return client.Status(ctx, endpoint)
	})
	if err != nil {
		return Health{Problem: fmt.Sprintf("it does not answer: %v", oneLine(err))}, 0
	}
	if ID(answer.Header.MemberId) != m.ID {
		return Health{Problem: fmt.Sprintf("the member %s answers at its address", ID(answer.Header.MemberId))}, 0
	}
	return Health{
		Reachable: true,
		Problem:   strings.Join(answer.Errors, "; "),
		Leader:    ID(answer.Leader),
		Term:      answer.RaftTerm,
		Index:     answer.RaftIndex,
		Applied:   answer.RaftAppliedIndex,
		Version:   answer.Version,
	}, answer.Header.Revision
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
