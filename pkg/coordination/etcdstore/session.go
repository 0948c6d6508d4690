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

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keepalive"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// session is a lease of etcd, and a key that is written periodically.
type session struct {
	*keepalive.Keeper
	store *store
	lease clientv3.LeaseID
	// value is the value of the key.
	value string
}

// sessionRecord is the value of a session's key.
type sessionRecord struct {
	Name string `json:"name"`
	// Duration is how long the key has to be unchanged before the session is ended.
	Duration string `json:"duration"`
}

// The lease must outlive any hang of etcd's leader. It ends by itself only if no process is left to revoke it.
const (
	minLeaseDuration    = time.Hour
	leaseDurationFactor = 10
)

// Open implements kv.Store. etcd chooses the ID of the lease, so only the key's value has the name.
func (s *store) Open(ctx context.Context, name string, duration time.Duration) (kv.Session, error) {
	opened, err := s.grantLease(ctx, name, duration)
	if err != nil {
		return nil, fmt.Errorf("opening a session for %s in etcd: %w", name, translateError(err))
	}
	sent := s.clock.Now()
	if err := opened.create(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening a session for %s in etcd: %w", name, translateError(err)),
			s.revoke(context.WithoutCancel(ctx), opened.lease))
	}
	opened.Keeper = keepalive.Start(ctx, sent, keepalive.Options{Clock: s.clock, Duration: duration, Renew: opened.renew})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[opened.ID()] = opened
	return opened, nil
}

// grantLease creates the lease of a session.
func (s *store) grantLease(ctx context.Context, name string, duration time.Duration) (*session, error) {
	text, err := json.Marshal(sessionRecord{Name: name, Duration: duration.String()})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	granted, err := s.client.Grant(ctx, int64(max(minLeaseDuration, leaseDurationFactor*duration)/time.Second))
	if err != nil {
		return nil, err
	}
	return &session{store: s, lease: granted.ID, value: string(text)}, nil
}

// create writes the key for the first time. It needs no precondition: no other session has this key.
func (s *session) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.store.timeout)
	defer cancel()
	_, err := s.store.client.Put(ctx, s.key(), s.value, clientv3.WithLease(s.lease))
	return err
}

// ID implements kv.Session.
func (s *session) ID() string { return sessionID(s.lease) }

func (s *session) key() string { return s.store.sessionsPath + "/" + s.ID() }

// renew writes the key once, if it exists.
func (s *session) renew(ctx context.Context) error {
	answer, err := s.store.client.Txn(clientv3.WithRequireLeader(ctx)).
		If(clientv3.Compare(clientv3.CreateRevision(s.key()), ">", 0)).
		Then(clientv3.OpPut(s.key(), s.value, clientv3.WithLease(s.lease))).
		Commit()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return keepalive.ErrSessionEnded
	case err != nil:
		return err
	case !answer.Succeeded: // the key was deleted: the entries that are attached to the lease have to go too
		return errors.Join(keepalive.ErrSessionEnded, s.store.revoke(ctx, s.lease))
	}
	// An error does not matter: many more attempts follow during the long life of the lease.
	_ = s.keepLease(ctx)
	return nil
}

// keepLease renews the lease once. KeepAliveOnce of the client does not return while etcd is unavailable, and retries without a
// delay.
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

// revoke ends a lease and removes its entries. It needs no precondition: a lease belongs to one session, and its ID is not used again.
func (s *store) revoke(ctx context.Context, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if _, err := s.client.Revoke(ctx, lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoking the lease %s: %w", sessionID(lease), err)
	}
	return nil
}

// removeSession removes a session that etcd has ended.
func (s *store) removeSession(ended *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, ended.ID())
}

// Close implements kv.Session.
func (s *session) Close(ctx context.Context) error {
	s.Stop()
	if err := s.store.revoke(ctx, s.lease); err != nil {
		return fmt.Errorf("ending a session in etcd; it expires by itself: %w", err)
	}
	s.store.removeSession(s)
	return nil
}
