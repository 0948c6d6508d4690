package etcdstore

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keys"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/sightings"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	// DefaultSessions is the path of the sessions.
	DefaultSessions = coordination.DefaultRoot + "/.sessions"
	// DefaultTimeout is how long one request may take.
	DefaultTimeout = 10 * time.Second
)

// Options are what can be set about a store. The zero value is good.
type Options struct {
	// Sessions is the path below which sessions are, DefaultSessions by default. All instances have to use the same.
	Sessions string
	// Timeout is how long one request may take, DefaultTimeout by default. A context may end it earlier.
	Timeout time.Duration
	// Clock is the process's clock by default. Only how much time passes on it matters.
	Clock clock.Clock
}

// store is a coordination.Store in etcd.
type store struct {
	client  *clientv3.Client
	path    string // of the sessions
	timeout time.Duration
	clock   clock.Clock
	seen    *sightings.Book

	mu sync.Mutex
	// sessions are those that this store has opened and that etcd may still have, by ID.
	sessions map[string]*session
	// durations are those of all sessions that were seen last.
	durations []time.Duration
}

// New returns a store that uses the client. The client has to stay open for as long as the store is used.
func New(client *clientv3.Client, options Options) kv.Store {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &store{
		client:   client,
		path:     cmp.Or(options.Sessions, DefaultSessions),
		timeout:  cmp.Or(options.Timeout, DefaultTimeout),
		clock:    options.Clock,
		seen:     &sightings.Book{},
		sessions: map[string]*session{},
	}
}

// Read implements coordination.Store.
func (s *store) Read(ctx context.Context, paths ...string) (*kv.Snapshot, error) {
	if err := keys.CheckPaths(paths...); err != nil {
		return nil, err
	}
	s.observe(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	reads := make([]clientv3.Op, 0, 2*len(paths))
	for _, path := range paths {
		reads = append(reads, clientv3.OpGet(path), clientv3.OpGet(path+"/", clientv3.WithPrefix()))
	}
	answer, err := s.client.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return nil, fmt.Errorf("reading from etcd: %w", translated(err))
	}
	snapshot := &kv.Snapshot{Revision: answer.Header.Revision, Entries: map[string]kv.Entry{}}
	for _, response := range answer.Responses {
		for _, found := range response.GetResponseRange().Kvs {
			snapshot.Entries[string(found.Key)] = kv.Entry{
				Value:   string(found.Value),
				Version: found.ModRevision,
				Session: sessionID(clientv3.LeaseID(found.Lease)),
			}
		}
	}
	return snapshot, nil
}

// Commit implements coordination.Store.
func (s *store) Commit(ctx context.Context, transaction kv.Transaction) (int64, error) {
	if err := keys.Check(transaction); err != nil {
		return 0, err
	}
	operations, err := s.operations(transaction.Then)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// The client sends a transaction that writes again only if it knows that nobody has received it.
	answer, err := s.client.Txn(ctx).If(comparisons(transaction.If)...).Then(operations...).Commit()
	if err != nil {
		return 0, fmt.Errorf("writing to etcd: %w", translated(err))
	}
	if !answer.Succeeded {
		return 0, kv.ErrConflict
	}
	return answer.Header.Revision, nil
}
