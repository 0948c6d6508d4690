// Package system observes the etcd cluster that the operators manage. It promises that
//
//   - a State is the state that a quorum agrees on, read from members that answer; without a quorum there is an error instead;
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

// The errors of State. Another system can answer if two regions have each started one.
var (
	ErrUnreachable = errors.New("no member of the system answers")
	ErrNoQuorum    = errors.New("the system has no quorum")
	ErrOtherSystem = errors.New("another system answers at this address")
)

// System is a client of one etcd cluster. Its endpoints are the members with a quorum at the last call of State.
type System struct {
	*clientv3.Client
	// Cluster is the ID of the etcd cluster. If it is 0, the first cluster with a quorum is used.
	Cluster uint64

	mu        sync.Mutex
	lastState State
}

// State is the state of the system, as agreed by a quorum.
type State struct {
	// Cluster is the ID of the etcd cluster, and Leader the ID of the leader, or 0.
	Cluster, Leader uint64
	Members         []Member
}

// Member is a member of the system.
type Member struct {
	ID                   uint64
	Name                 string // empty before the first start of the member
	PeerURLs, ClientURLs []string
	Learner              bool
	Problem              string // why the member is not healthy, or empty
	Term, Lag            uint64 // the newest Raft term that the member knows, and how many entries it is behind
	Version              string
}

// Dial returns a client of the etcd cluster with members at the endpoints. It does not connect yet.
func Dial(endpoints []string, options ...grpc.DialOption) (*System, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), DialKeepAliveTime: 6 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		// By default a client may wait two more minutes after a long outage.
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

// endpointStatus is the response of one endpoint.
type endpointStatus struct {
	endpoint string
	status   *pb.StatusResponse
	members  []*pb.Member // nil without a quorum
	err      error
}

// State reads the status of the known members and the seeds. Members that do not answer are included with the
// reason.
func (s *System) State(ctx context.Context, seeds ...string) (*State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	endpoints := slices.Concat(s.Endpoints(), seeds)
	for _, m := range s.lastState.Members {
		endpoints = append(endpoints, m.ClientURLs...)
	}
	slices.Sort(endpoints)
	endpoints = slices.Compact(endpoints)
	answers := make([]endpointStatus, len(endpoints))
	var group sync.WaitGroup
	for i, endpoint := range endpoints {
		group.Go(func() { answers[i] = s.queryEndpoint(ctx, endpoint) })
	}
	group.Wait()
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
	if s.lastState = state; !slices.Equal(agreeing, s.Endpoints()) {
		s.SetEndpoints(agreeing...)
	}
	return &state, nil
}

// queryEndpoint queries one endpoint. Unlike the methods of the etcd client, it does not wait for a member that
// is down.
func (s *System) queryEndpoint(ctx context.Context, endpoint string) endpointStatus {
	a := endpointStatus{endpoint: endpoint}
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
	listCtx, cancel := context.WithTimeout(ctx, 3*time.Second) // long enough for the election of a new leader
	defer cancel()
	if list, err := pb.NewClusterClient(conn).MemberList(listCtx, &pb.MemberListRequest{Linearizable: true}); err == nil {
		a.members = list.Members
	}
	return a
}

// MoveLeader makes another member the leader. Only the leader can do that, so it is sent to the leader.
func (s *System) MoveLeader(ctx context.Context, leader, to uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, found := s.lastState.Member(leader)
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

func newState(cluster uint64, members []*pb.Member, answers []endpointStatus) State {
	state := State{Cluster: cluster}
	var newestTerm, index uint64
	for _, a := range answers {
		if a.err == nil && a.status.Leader != 0 && a.status.RaftTerm > newestTerm { // the leader of the newest term
			newestTerm, state.Leader = a.status.RaftTerm, a.status.Leader
		}
		index = max(index, a.status.GetRaftIndex())
	}
	for _, member := range members {
		m := Member{
			ID: member.ID, Name: member.Name, PeerURLs: member.PeerURLs, ClientURLs: member.ClientURLs, Learner: member.IsLearner,
			Problem: "it was not queried yet",
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

// Healthy reports whether the member answers, follows the leader and reports no error.
func (m Member) Healthy() bool { return m.Problem == "" }

// Voters returns the members with a vote.
func (s *State) Voters() []Member {
	return slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return m.Learner })
}

// HasQuorum reports whether a majority of the voters is healthy.
func (s *State) HasQuorum() bool { return s.Spares(0, false) }

// Spares reports whether a majority of the voters is healthy without a member, which is stopped or removed.
func (s *State) Spares(id uint64, removed bool) bool {
	voters := slices.DeleteFunc(s.Voters(), func(m Member) bool { return m.ID == id && removed })
	healthy := slices.DeleteFunc(slices.Clone(voters), func(m Member) bool { return m.ID == id || !m.Healthy() })
	return len(healthy) > len(voters)/2
}

// Member returns the member with an ID.
func (s *State) Member(id uint64) (Member, bool) {
	return s.find(func(m Member) bool { return m.ID == id })
}

// Known returns the member with a name, or else with a peer URL, because a member has no name before its first
// start. A nil State has no members.
func (s *State) Known(name, peerURL string) (Member, bool) {
	if s == nil {
		return Member{}, false
	}
	if m, found := s.find(func(m Member) bool { return m.Name == name && name != "" }); found {
		return m, true
	}
	return s.find(func(m Member) bool { return slices.Contains(m.PeerURLs, peerURL) })
}

func (s *State) find(matches func(Member) bool) (Member, bool) {
	if i := slices.IndexFunc(s.Members, matches); i >= 0 {
		return s.Members[i], true
	}
	return Member{}, false
}
