// Package system observes the etcd cluster that the operators manage. It promises that
//
//   - a State is what a quorum agrees on, read from members that answer; without a quorum there is an error instead;
//   - a member that is down or hangs delays a State by seconds at most: each one is asked on a connection of its own;
//   - answers of another etcd cluster are never taken for those of this one.
package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// What State returns instead of a State. Another system can answer if two regions have each started one.
var (
	ErrUnreachable = errors.New("no member of the system answers")
	ErrNoQuorum    = errors.New("the system has no quorum")
	ErrOtherSystem = errors.New("another system answers at this address")
)

// System is a client of one etcd cluster. Its endpoints are the members that had a quorum when State was called last.
type System struct {
	*clientv3.Client
	// Cluster is the ID of the etcd cluster, 0 until one was found: then the first one with a quorum is taken.
	Cluster uint64

	mu   sync.Mutex
	last State
}

// State is what a quorum of the system agrees on.
type State struct {
	// Cluster is etcd's ID of the whole system, and Leader that of the leading member, or 0.
	Cluster, Leader uint64
	Members         []Member
}

// Member is a member of the system.
type Member struct {
	ID                   uint64
	Name                 string // empty until the member was started for the first time
	PeerURLs, ClientURLs []string
	Learner              bool
	Problem              string // why the member is not healthy, empty if it is
	Term, Lag            uint64 // the newest Raft term that the member knows, and how many entries it is behind
	Version              string
}

// Dial returns a client of the etcd cluster that has members at the endpoints. It connects to none of them yet.
func Dial(endpoints []string, options ...grpc.DialOption) (*System, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), DialKeepAliveTime: 6 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		// By default a client that was cut off for long may wait for two more minutes after the connection is back.
		DialOptions: append(options, grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		})),
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", strings.Join(endpoints, ", "), err)
	}
	return &System{Client: client}, nil
}

// answer is what one endpoint says.
type answer struct {
	endpoint string
	status   *pb.StatusResponse
	members  []*pb.Member // nil without a quorum
	err      error
}

// State asks the members that are known, and the seeds, how they are. Members that do not answer are in it with the reason.
func (s *System) State(ctx context.Context, seeds ...string) (*State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	endpoints := slices.Concat(s.Endpoints(), seeds)
	for _, m := range s.last.Members {
		endpoints = append(endpoints, m.ClientURLs...)
	}
	slices.Sort(endpoints)
	endpoints = slices.Compact(endpoints)
	answers := make([]answer, len(endpoints))
	var asked sync.WaitGroup
	for i, endpoint := range endpoints {
		asked.Go(func() { answers[i] = s.ask(ctx, endpoint) })
	}
	asked.Wait()
	state, errs, agreeing := State{}, []error{ErrUnreachable}, []string(nil)
	for i := range answers {
		a := &answers[i]
		if a.err == nil && s.Cluster != 0 && s.Cluster != a.status.Header.ClusterId {
			a.err = fmt.Errorf("%w: %x, not %x", ErrOtherSystem, a.status.Header.ClusterId, s.Cluster)
		}
		switch {
		case a.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", a.endpoint, a.err))
		case a.members == nil:
			errs[0] = ErrNoQuorum
		default:
			s.Cluster, agreeing = a.status.Header.ClusterId, append(agreeing, a.endpoint)
			state = newState(s.Cluster, a.members, answers)
		}
	}
	if len(agreeing) == 0 {
		return nil, errors.Join(errs...)
	}
	if s.last = state; !slices.Equal(agreeing, s.Endpoints()) {
		s.SetEndpoints(agreeing...)
	}
	return &state, nil
}

// ask asks one endpoint. Unlike the methods of etcd's client, it does not wait for a member that is down.
func (s *System) ask(ctx context.Context, endpoint string) answer {
	a := answer{endpoint: endpoint}
	conn, err := s.Dial(endpoint)
	if err != nil {
		a.err = err
		return a
	}
	defer conn.Close()
	statusCtx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if a.status, err = pb.NewMaintenanceClient(conn).Status(statusCtx, &pb.StatusRequest{}); err != nil {
		a.err = clientv3.ContextError(statusCtx, err)
		return a
	}
	listCtx, cancel := context.WithTimeout(ctx, 3*time.Second) // a leader that has just died is replaced within it
	defer cancel()
	if list, err := pb.NewClusterClient(conn).MemberList(listCtx, &pb.MemberListRequest{Linearizable: true}); err == nil {
		a.members = list.Members
	}
	return a
}

// MoveLeader makes another member the leader. Only the leader can do that, so that it is asked.
func (s *System) MoveLeader(ctx context.Context, leader, to uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, found := s.last.Member(leader)
	if !found || len(m.ClientURLs) == 0 {
		return rpctypes.ErrNotLeader
	}
	conn, err := s.Dial(m.ClientURLs[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pb.NewMaintenanceClient(conn).MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: to})
	return rpctypes.Error(err)
}

func newState(cluster uint64, members []*pb.Member, answers []answer) State {
	state := State{Cluster: cluster}
	var term, index uint64
	for _, a := range answers {
		if a.err == nil && a.status.Leader != 0 && a.status.RaftTerm > term { // the newest leader counts
			term, state.Leader = a.status.RaftTerm, a.status.Leader
		}
		index = max(index, a.status.GetRaftIndex())
	}
	for _, member := range members {
		m := Member{
			ID: member.ID, Name: member.Name, PeerURLs: member.PeerURLs, ClientURLs: member.ClientURLs, Learner: member.IsLearner,
			Problem: "it was not asked yet",
		}
		if m.Name == "" {
			m.Problem = "it has never been started"
		}
		for _, a := range answers {
			switch {
			case a.err == nil && a.status.Header.MemberId == m.ID:
				m.Term, m.Version, m.Lag = a.status.RaftTerm, a.status.Version, index-min(index, a.status.RaftAppliedIndex)
				switch m.Problem = strings.Join(a.status.Errors, "; "); {
				case m.Problem != "":
				case a.status.Leader == 0:
					m.Problem = "it follows no leader"
				case a.status.Leader != state.Leader: // it is cut off from the others and has not noticed
					m.Problem = "it follows a former leader"
				}
			case a.err != nil && slices.Contains(m.ClientURLs, a.endpoint):
				m.Problem = "it does not answer: " + a.err.Error()
			}
		}
		state.Members = append(state.Members, m)
	}
	slices.SortFunc(state.Members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return state
}

// Healthy tells whether the member answers, follows the leader and reports no error.
func (m Member) Healthy() bool { return m.Problem == "" }

// Voters are the members that have a vote.
func (s *State) Voters() []Member {
	return slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return m.Learner })
}

// HasQuorum tells whether most voters are healthy.
func (s *State) HasQuorum() bool { return s.Spares(0, false) }

// Spares tells whether most voters are healthy without a member, which is stopped or removed.
func (s *State) Spares(id uint64, removed bool) bool {
	voters := slices.DeleteFunc(s.Voters(), func(m Member) bool { return m.ID == id && removed })
	healthy := slices.DeleteFunc(slices.Clone(voters), func(m Member) bool { return m.ID == id || !m.Healthy() })
	return len(healthy) > len(voters)/2
}

// Member returns the member with an ID.
func (s *State) Member(id uint64) (Member, bool) {
	return s.find(func(m Member) bool { return m.ID == id })
}

// Known returns the member with a name, or else with a peer URL, which is all that it has before it is started. Nobody is known in
// a nil State.
func (s *State) Known(name, peerURL string) (Member, bool) {
	if s == nil {
		return Member{}, false
	}
	if m, found := s.find(func(m Member) bool { return m.Name == name && name != "" }); found {
		return m, true
	}
	return s.find(func(m Member) bool { return slices.Contains(m.PeerURLs, peerURL) })
}

func (s *State) find(is func(Member) bool) (Member, bool) {
	if at := slices.IndexFunc(s.Members, is); at >= 0 {
		return s.Members[at], true
	}
	return Member{}, false
}
