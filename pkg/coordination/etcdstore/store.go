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
	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/staleness"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	// DefaultSessions is the default path of the sessions.
	DefaultSessions = coordination.DefaultRoot + "/.sessions"
	// DefaultTimeout is the default timeout of a request.
	DefaultTimeout = 10 * time.Second
)

// Options configure a store. The zero value is valid.
type Options struct {
	// Sessions is the path of the sessions. It defaults to DefaultSessions. All participants have to use the same path.
	Sessions string
	// Timeout is the timeout of a request. It defaults to DefaultTimeout.
	Timeout time.Duration
	// Clock is for tests.
	Clock clock.Clock
}

// store is a kv.Store in etcd.
type store struct {
	client       *clientv3.Client
	sessionsPath string
	timeout      time.Duration
	clock        clock.Clock
	tracker      *staleness.Tracker

	mu sync.Mutex
	// sessions are the sessions that this store has opened and etcd may still have, by ID.
	sessions map[string]*session
	// durations are the durations of all sessions, as observed last.
	durations []time.Duration
}

// New returns a store that uses the client. Close the client only after the last use of the store.
func New(client *clientv3.Client, options Options) kv.Store {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &store{
		client:       client,
		sessionsPath: cmp.Or(options.Sessions, DefaultSessions),
		timeout:      cmp.Or(options.Timeout, DefaultTimeout),
		clock:        options.Clock,
		tracker:      &staleness.Tracker{},
		sessions:     map[string]*session{},
	}
}

// Read implements kv.Store.
func (s *store) Read(ctx context.Context, paths ...string) (*kv.Snapshot, error) {
	if err := keys.CheckPaths(paths...); err != nil {
		return nil, err
	}
	s.endExpiredIfDue(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	reads := make([]clientv3.Op, 0, 2*len(paths))
	for _, path := range paths {
		reads = append(reads, clientv3.OpGet(path), clientv3.OpGet(path+"/", clientv3.WithPrefix()))
	}
	answer, err := s.client.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return nil, fmt.Errorf("reading from etcd: %w", translateError(err))
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

// Commit implements kv.Store.
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
	// The client retries a transaction that writes only if it knows that no member has received it.
	answer, err := s.client.Txn(ctx).If(comparisons(transaction.If)...).Then(operations...).Commit()
	if err != nil {
		return 0, fmt.Errorf("writing to etcd: %w", translateError(err))
	}
	if !answer.Succeeded {
		return 0, kv.ErrConflict
	}
	return answer.Header.Revision, nil
}
