// Package system is what the operators know of the etcd cluster that they manage, and what they do to it. It promises that
//
//   - what it tells is what a quorum agrees on, or says that it is not;
//   - a member that is dead or hangs makes an answer poorer and not late: every member is asked by itself, for seconds at most;
//   - what was done already is no error when it is asked for again.
//
// It decides nothing: which member goes when is for others to say.
package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	// statusTimeout is how long a member has to say how it is.
	statusTimeout = time.Second
	// listTimeout is how long the system has to agree on its members. A leader that has just died is replaced within it.
	listTimeout = 3 * time.Second
	// changeTimeout is how long the leader has to change something.
	changeTimeout = 5 * time.Second
)

// What errors.Is can be asked for.
var (
	// ErrUnreachable is returned when no member answers.
	ErrUnreachable = errors.New("no member of the system answers")
	// ErrOtherSystem is returned when another system answers than before. Two regions may both have started one.
	ErrOtherSystem = errors.New("another system answers at this address")
	// ErrNoLeader is returned when there is nobody to change anything.
	ErrNoLeader = errors.New("the system has no leader at the moment")
	// ErrOtherLeader is returned when neither of two members leads.
	ErrOtherLeader = errors.New("another member leads")
	// ErrNotMember is returned when the system does not know the member.
	ErrNotMember = errors.New("the system has no such member")
	// ErrNotInSync is returned when a learner does not have enough of the data yet to vote. Try it again.
	ErrNotInSync = errors.New("the learner is not in sync yet")
	// ErrNotNow is returned when etcd refuses a change because too few members are well. Try it again.
	ErrNotNow = errors.New("the system does not take the change now")
)

// System is a connection to one etcd cluster, which is the first that it finds. Its methods may be called from several goroutines.
type System struct {
	mu sync.Mutex
	// clients has one for each address, so that a member that hangs holds up only what is asked of it.
	clients map[string]*clientv3.Client
	dialing []grpc.DialOption
	seeds   []string
	// cluster is the system that was found first, and learned are the addresses that its members had the last time.
	cluster ID
	learned []string
}

// Dial returns a connection to the system that may be found at the seeds. It asks nobody yet. The options are for all connections.
func Dial(seeds []string, options ...grpc.DialOption) (*System, error) {
	if len(seeds) == 0 {
		return nil, errors.New("dialing the system: there is no address to find it at")
	}
	return &System{clients: map[string]*clientv3.Client{}, dialing: options, seeds: slices.Clone(seeds)}, nil
}

// Close ends all connections.
func (s *System) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, client := range s.clients {
		errs = append(errs, client.Close())
	}
	clear(s.clients)
	return errors.Join(errs...)
}

// Endpoints are the addresses of the members as they were known last, and the seeds.
func (s *System) Endpoints() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.learned)
	for _, seed := range s.seeds {
		if !slices.Contains(all, seed) {
			all = append(all, seed)
		}
	}
	return all
}

// SetSeeds replaces the addresses that the system may be found at. Those of the members that are known are kept.
func (s *System) SetSeeds(seeds []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeds = slices.Clone(seeds)
}

// SetCluster looks for a system that was found before: no other one is taken for it.
func (s *System) SetCluster(cluster ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster = cluster
}

// client returns the connection to one address.
func (s *System) client(endpoint string) (*clientv3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client := s.clients[endpoint]; client != nil {
		return client, nil
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:       []string{endpoint},
		MaxUnaryRetries: 1, // the caller sees the whole system and knows what to try again
		Logger:          zap.NewNop(),
		DialOptions: append([]grpc.DialOption{
			// A member that returns is soon found again.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond},
				MinConnectTimeout: statusTimeout,
			}),
			// A call to a member that is dead fails at once. By default etcd's client waits for its return.
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return invoke(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
			}),
		}, s.dialing...),
	})
	if err != nil {
		return nil, fmt.Errorf("dialing %s: %w", endpoint, err)
	}
	s.clients[endpoint] = client
	return client, nil
}

// answer is what one address says.
type answer struct {
	state  *State // the members, if it knows them
	health Health
	member ID
	err    error
}

// State asks the system for its members, and each of them how it is. Members that do not answer are in it with the reason. It is
// an error only when nobody answers at all.
func (s *System) State(ctx context.Context) (*State, error) {
	endpoints := s.Endpoints()
	answers := make([]answer, len(endpoints))
	var asked sync.WaitGroup
	for i, endpoint := range endpoints {
		asked.Go(func() { answers[i] = s.ask(ctx, endpoint) })
	}
	asked.Wait()
	var state *State
	errs, problems, healths := []error{ErrUnreachable}, map[string]error{}, map[ID]Health{}
	for i, answer := range answers {
		if answer.err != nil {
			problems[endpoints[i]] = answer.err
			errs = append(errs, fmt.Errorf("%s: %w", endpoints[i], answer.err))
		}
		if answer.member != 0 {
			healths[answer.member] = answer.health
		}
		if found := answer.state; found != nil && (state == nil || found.Agreed && !state.Agreed) {
			state = found
		}
	}
	if state == nil {
		return nil, fmt.Errorf("looking at the system: %w", errors.Join(errs...))
	}
	for i := range state.Members {
		state.Members[i].Health = state.Members[i].health(healths, problems)
	}
	state.judge()
	s.learn(state)
	return state, nil
}

// health is what a member has said, or why it has not.
func (m Member) health(healths map[ID]Health, problems map[string]error) Health {
	if health, answered := healths[m.ID]; answered {
		return health
	}
	if len(m.ClientURLs) == 0 {
		return Health{Problem: "it has never been started"}
	}
	for _, url := range m.ClientURLs {
		if err := problems[url]; err != nil {
			return Health{Problem: "it does not answer: " + strings.ReplaceAll(err.Error(), "\n", "; ")}
		}
	}
	return Health{Problem: "another member answers at its address, or it was not asked yet"}
}

// ask asks one address how the member is, and for all members: what a quorum agrees on, or else what the member remembers.
func (s *System) ask(ctx context.Context, endpoint string) answer {
	client, err := s.client(endpoint)
	if err != nil {
		return answer{err: err}
	}
	within, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, err := client.Status(within, endpoint)
	if err != nil {
		return answer{err: err}
	}
	if err := s.belongs(ID(status.Header.ClusterId)); err != nil {
		return answer{err: err}
	}
	said := answer{member: ID(status.Header.MemberId), health: Health{
		Reachable: true, Problem: strings.Join(status.Errors, "; "), Leader: ID(status.Leader), Term: status.RaftTerm,
		Index: status.RaftIndex, Applied: status.RaftAppliedIndex, Version: status.Version,
	}}
	within, cancel = context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := client.MemberList(within)
	agreed := err == nil
	if err != nil {
		within, cancel = context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		list, err = client.MemberList(within, clientv3.WithSerializable())
	}
	if err != nil {
		return said
	}
	said.state = &State{Cluster: ID(list.Header.ClusterId), Agreed: agreed}
	for _, m := range list.Members {
		said.state.Members = append(said.state.Members, Member{
			ID: ID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner,
		})
	}
	return said
}

// learn remembers where the members are, and forgets those that are gone.
func (s *System) learn(state *State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state.Agreed {
		s.cluster = state.Cluster
	}
	s.learned = state.ClientURLs()
	for endpoint, client := range s.clients {
		if !slices.Contains(s.learned, endpoint) && !slices.Contains(s.seeds, endpoint) {
			delete(s.clients, endpoint)
			_ = client.Close() // nobody is at the other end
		}
	}
}

// belongs tells whether an answer is one of the system that was found first.
func (s *System) belongs(cluster ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster != 0 && s.cluster != cluster {
		return fmt.Errorf("%w: %s, not %s", ErrOtherSystem, cluster, s.cluster)
	}
	return nil
}

// AddLearner makes the system expect a member at a peer URL, which does not vote yet. It returns the ID that the member gets, or has.
func (s *System) AddLearner(ctx context.Context, peerURL string) (id ID, err error) {
	err = s.change(ctx, "adding a learner at "+peerURL, func(ctx context.Context, state *State, leader *clientv3.Client) error {
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
	return id, err
}

// Promote makes a learner vote. The error is ErrNotInSync while the learner has too little of the data.
func (s *System) Promote(ctx context.Context, id ID) error {
	return s.change(ctx, "promoting "+id.String(), func(ctx context.Context, state *State, leader *clientv3.Client) error {
		if m, found := state.Member(id); !found || !m.Learner {
			return ifNot(found, ErrNotMember)
		}
		_, err := leader.MemberPromote(ctx, uint64(id))
		return err
	})
}

// MoveLeader makes a member lead instead of another. The error is ErrOtherLeader if neither of them leads: then the reason for it
// may be gone.
func (s *System) MoveLeader(ctx context.Context, from, to ID) error {
	return s.change(ctx, fmt.Sprintf("making %s lead instead of %s", to, from), func(ctx context.Context, state *State, leader *clientv3.Client) error {
		m, found := state.Member(to)
		switch {
		case state.Leader == to:
			return nil
		case state.Leader != from:
			return fmt.Errorf("%w: %s", ErrOtherLeader, state.Leader)
		case !found:
			return ErrNotMember
		case m.Learner:
			return errors.New("a learner cannot lead")
		}
		_, err := leader.MoveLeader(ctx, uint64(to))
		return err
	})
}

// Remove makes the system do without a member for good. One that it does not know is no error.
func (s *System) Remove(ctx context.Context, id ID) error {
	return s.change(ctx, "removing "+id.String(), func(ctx context.Context, state *State, leader *clientv3.Client) error {
		if _, found := state.Member(id); !found {
			return nil
		}
		_, err := leader.MemberRemove(ctx, uint64(id))
		return ifNot(errors.Is(err, rpctypes.ErrMemberNotFound), err)
	})
}

func ifNot(is bool, err error) error {
	if is {
		return nil
	}
	return err
}

// change looks at the system, and has the leader change it.
func (s *System) change(ctx context.Context, doing string, do func(ctx context.Context, state *State, leader *clientv3.Client) error) error {
	state, err := s.State(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	leader, found := state.Member(state.Leader)
	if !state.Agreed || !found || !leader.Health.Reachable {
		return fmt.Errorf("%s: %w", doing, ErrNoLeader)
	}
	client, err := s.client(leader.ClientURLs[0])
	if err != nil {
		return err
	}
	// A leader that hangs from now on must not hold up the caller.
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	err = do(ctx, state, client)
	for kind, causes := range map[error][]error{
		ErrNotInSync: {rpctypes.ErrMemberLearnerNotReady}, ErrNotMember: {rpctypes.ErrMemberNotFound},
		ErrNotNow:   {rpctypes.ErrUnhealthy, rpctypes.ErrMemberNotEnoughStarted, rpctypes.ErrTooManyLearners},
		ErrNoLeader: {rpctypes.ErrNotLeader, rpctypes.ErrNoLeader, rpctypes.ErrLeaderChanged},
	} {
		if slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) }) {
			err = fmt.Errorf("%w: %w", kind, err)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
