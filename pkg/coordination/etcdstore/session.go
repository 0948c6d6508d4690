package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/tenure"
)

// session is a lease of etcd.
type session struct {
	*tenure.Tenure
	store *store
	lease clientv3.LeaseID
}

// Open implements coordination.Store. etcd names leases itself, so the ID does not show the name.
func (s *store) Open(ctx context.Context, name string, duration time.Duration) (coordination.Session, error) {
	asking, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	sent := s.clock.Now()
	seconds := int64((duration + time.Second - 1) / time.Second)
	granted, err := s.client.Grant(asking, seconds)
	if err != nil {
		return nil, fmt.Errorf("opening a session for %s in etcd: %w", name, err)
	}
	opened := &session{store: s, lease: granted.ID}
	opened.Tenure = tenure.Begin(ctx, sent, tenure.Options{
		Clock: s.clock,
		// It may be more than what was asked for.
		Duration: time.Duration(granted.TTL) * time.Second,
		Renew:    opened.renew,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[opened.ID()] = opened
	return opened, nil
}

// ID implements coordination.Session.
func (s *session) ID() string { return sessionID(s.lease) }

// renew asks etcd once to keep the lease. The client's own KeepAliveOnce does not return while etcd is away, and
// asks again without a pause.
func (s *session) renew(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel() // this ends the stream
	stream, err := clientv3.RetryLeaseClient(s.store.client).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(s.lease)}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) || err == nil && answer.TTL <= 0 {
		return tenure.ErrEnded
	}
	return err
}

// Close implements coordination.Session.
func (s *session) Close(ctx context.Context) error {
	s.End()
	ctx, cancel := context.WithTimeout(ctx, s.store.timeout)
	defer cancel()
	// It needs no precondition: the lease is this session's and nobody else's.
	if _, err := s.store.client.Revoke(ctx, s.lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("ending a session in etcd, which now ends by itself: %w", err)
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	delete(s.store.sessions, s.ID()) // etcd refuses it from now on
	return nil
}
