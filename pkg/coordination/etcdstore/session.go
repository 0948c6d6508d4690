package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/tenure"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// session is a lease of etcd, and a key that is written again and again.
type session struct {
	*tenure.Tenure
	store *store
	lease clientv3.LeaseID
	// text is what is at the key.
	text string
}

// tenant is what all have to know about a session.
type tenant struct {
	Name string `json:"name"`
	// Duration is for how long its key must have been unchanged before it is ended.
	Duration string `json:"duration"`
}

// A lease outlives by far what a leader of etcd may hang. It goes at last where nobody is left to revoke it.
const (
	leastLife = time.Hour
	lives     = 10
)

// Open implements coordination.Store. etcd names leases itself, so the ID does not show the name; the key does.
func (s *store) Open(ctx context.Context, name string, duration time.Duration) (kv.Session, error) {
	opened, err := s.grant(ctx, name, duration)
	if err != nil {
		return nil, fmt.Errorf("opening a session for %s in etcd: %w", name, translated(err))
	}
	sent := s.clock.Now()
	if err := opened.create(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening a session for %s in etcd: %w", name, translated(err)),
			s.revoke(context.WithoutCancel(ctx), opened.lease))
	}
	opened.Tenure = tenure.Begin(ctx, sent, tenure.Options{Clock: s.clock, Duration: duration, Renew: opened.renew})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[opened.ID()] = opened
	return opened, nil
}

// grant asks for a lease.
func (s *store) grant(ctx context.Context, name string, duration time.Duration) (*session, error) {
	text, err := json.Marshal(tenant{Name: name, Duration: duration.String()})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	granted, err := s.client.Grant(ctx, int64(max(leastLife, lives*duration)/time.Second))
	if err != nil {
		return nil, err
	}
	return &session{store: s, lease: granted.ID, text: string(text)}, nil
}

// create writes the key for the first time. It needs no precondition: the key is this session's and nobody else's.
func (s *session) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.store.timeout)
	defer cancel()
	_, err := s.store.client.Put(ctx, s.key(), s.text, clientv3.WithLease(s.lease))
	return err
}

// ID implements coordination.Session.
func (s *session) ID() string { return sessionID(s.lease) }

func (s *session) key() string { return s.store.path + "/" + s.ID() }

// renew writes the key once, if it is there.
func (s *session) renew(ctx context.Context) error {
	answer, err := s.store.client.Txn(clientv3.WithRequireLeader(ctx)).
		If(clientv3.Compare(clientv3.CreateRevision(s.key()), ">", 0)).
		Then(clientv3.OpPut(s.key(), s.text, clientv3.WithLease(s.lease))).
		Commit()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return tenure.ErrEnded
	case err != nil:
		return err
	case !answer.Succeeded: // somebody has deleted the key, and what is attached to the lease has to go too
		return errors.Join(tenure.ErrEnded, s.store.revoke(ctx, s.lease))
	}
	// It has all the time of the lease's long life to succeed.
	_ = s.keepLease(ctx)
	return nil
}

// keepLease asks etcd once to keep the lease. The client's own KeepAliveOnce does not return while etcd is away, and
// asks again without a pause.
func (s *session) keepLease(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel() // this ends the stream
	stream, err := clientv3.RetryLeaseClient(s.store.client).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(s.lease)}); err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// revoke ends a lease with all that is attached to it. It needs no precondition: a lease is one session's, and is
// never granted again.
func (s *store) revoke(ctx context.Context, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if _, err := s.client.Revoke(ctx, lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoking the lease %s: %w", sessionID(lease), err)
	}
	return nil
}

// forget forgets a session that etcd does not have any more, and refuses from now on.
func (s *store) forget(ended *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, ended.ID())
}

// Close implements coordination.Session.
func (s *session) Close(ctx context.Context) error {
	s.End()
	if err := s.store.revoke(ctx, s.lease); err != nil {
		return fmt.Errorf("ending a session in etcd, which now ends by itself: %w", err)
	}
	s.store.forget(s)
	return nil
}
