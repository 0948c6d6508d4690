package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	// statusTimeout is how long a member has to say how it is.
	statusTimeout = time.Second
	// listTimeout is how long the system has to agree on who belongs to it. A leader that has just died is
	// replaced within it.
	listTimeout = 3 * time.Second
	// changeTimeout is how long the leader has to change something.
	changeTimeout = 5 * time.Second
)

// What errors.Is can be asked for.
var (
	// ErrUnreachable is when no member answers.
	ErrUnreachable = errors.New("no member of the system answers")
	// ErrOtherSystem is when who answers belongs to another system than before. Two regions may both have started one.
	ErrOtherSystem = errors.New("another system answers at this address")
	// ErrNoLeader is when there is nobody to change anything.
	ErrNoLeader = errors.New("the system has no leader at the moment")
	// ErrOtherLeader is when somebody else leads than was thought.
	ErrOtherLeader = errors.New("another member leads")
	// ErrNotMember is when the system does not know the member.
	ErrNotMember = errors.New("the system has no such member")
	// ErrNotInSync is when a learner does not have enough of the data yet to vote. It is to be tried again.
	ErrNotInSync = errors.New("the learner is not in sync yet")
	// ErrNotNow is when etcd refuses a change because too few members are well. It is to be tried again.
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

// Dial returns a connection to the system that may be found at the seeds. It asks nobody yet, so it fails only if
// there is no seed or one of them is no address. The options are for all connections.
func Dial(seeds []string, options ...grpc.DialOption) (*System, error) {
	if len(seeds) == 0 {
		return nil, errors.New("dialing the system: there is no address to find it at")
	}
	s := &System{clients: map[string]*clientv3.Client{}, dialing: options, seeds: slices.Clone(seeds)}
	for _, seed := range seeds {
		if _, err := s.client(seed); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
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
	return distinct(s.learned, s.seeds)
}

// SetSeeds replaces the addresses that the system may be found at. Those of the members that are known are kept.
func (s *System) SetSeeds(seeds []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeds = slices.Clone(seeds)
}

// SetCluster makes what is looked for a system that was found before: no other one is taken for it.
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
		Endpoints: []string{endpoint},
		// What is to be tried again is for the caller to say, who sees the whole system.
		MaxUnaryRetries: 1,
		Logger:          zap.NewNop(),
		DialOptions: append([]grpc.DialOption{
			// A member that returns is soon found again.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond},
				MinConnectTimeout: statusTimeout,
			}),
			grpc.WithChainUnaryInterceptor(failFast),
		}, s.dialing...),
	})
	if err != nil {
		return nil, fmt.Errorf("dialing %s: %w", endpoint, err)
	}
	s.clients[endpoint] = client
	return client, nil
}

// failFast makes a call to a member that is dead an error at once. By default etcd's client waits for its return.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoker(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
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
			_ = client.Close() // there is nobody at the other end who would mind
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

func distinct(lists ...[]string) []string {
	var all []string
	for _, entry := range slices.Concat(lists...) {
		if !slices.Contains(all, entry) {
			all = append(all, entry)
		}
	}
	return all
}

// first asks all addresses at once, and takes the first answer. The others need not go on.
func first[T any](ctx context.Context, endpoints []string, ask func(ctx context.Context, endpoint string) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, len(endpoints))
	for _, endpoint := range endpoints {
		go func() {
			value, err := ask(ctx, endpoint)
			if err != nil {
				err = fmt.Errorf("%s: %w", endpoint, err)
			}
			answers <- answer{value, err}
		}()
	}
	errs := []error{ErrUnreachable}
	for range endpoints {
		answer := <-answers
		if answer.err == nil {
			return answer.value, nil
		}
		errs = append(errs, answer.err)
	}
	var none T
	return none, errors.Join(errs...)
}
