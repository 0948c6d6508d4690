package kubestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keepalive"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// session is a line in the ConfigMap, and a Lease that is renewed.
type session struct {
	*keepalive.Keeper
	store *store
	id    string
	// lease is the Lease after the last renewal. Only renew changes it.
	lease *coordinationv1.Lease
}

// Open implements kv.Store. It creates the Lease before the session, because a session without a Lease has expired.
func (s *store) Open(ctx context.Context, name string, duration time.Duration) (kv.Session, error) {
	seconds := int64(max(1, (duration+time.Second-1)/time.Second))
	opened := &session{store: s, id: newSessionID(name)}
	sent := s.clock.Now()
	if err := opened.create(ctx, seconds); err != nil {
		if apierrors.IsNotFound(err) { // only the namespace can be missing
			err = fmt.Errorf("the namespace %s of the store does not exist: create it, or set Options.Namespace to another one: %w", s.namespace, err)
		}
		return nil, fmt.Errorf("opening a session for %s: %w", name, err)
	}
	opened.Keeper = keepalive.Start(ctx, sent, keepalive.Options{
		Clock:    s.clock,
		Duration: time.Duration(seconds) * time.Second,
		Renew:    opened.renew,
	})
	_, err := s.update(ctx, 0, func(current *state) (bool, error) {
		if !opened.Alive() {
			return false, kv.ErrSessionLost
		}
		current.addSession(opened.id, sessionRecord{Seconds: seconds})
		return true, nil
	})
	if err != nil {
		// The session may exist nevertheless. It expires because it has no Lease.
		opened.Stop()
		return nil, errors.Join(fmt.Errorf("opening a session for %s: %w", name, err), opened.deleteLease(context.WithoutCancel(ctx)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[opened.id] = opened
	return opened, nil
}

// newSessionID returns a unique ID that is valid in the name of a Lease and shows the name of the owner.
func newSessionID(name string) string {
	const maxLength, random = 40, 16
	readable := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-")
	readable = strings.Trim(readable[:min(len(readable), maxLength)], "-")
	return strings.TrimPrefix(readable+"-"+strings.ToLower(rand.Text()[:random]), "-")
}

func (s *store) ownSessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sessions))
}

// removeSession removes a session that is not in the ConfigMap.
func (s *store) removeSession(ended *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, ended.id)
}

func (s *store) leaseName(id string) string { return s.name + "-" + id }

// ID implements kv.Session.
func (s *session) ID() string { return s.id }

func (s *session) create(ctx context.Context, seconds int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.store.timeout)
	defer cancel()
	now := metav1.NewMicroTime(s.store.clock.Now())
	// It needs no precondition: the name is new.
	lease, err := s.store.leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:   s.store.leaseName(s.id),
			Labels: map[string]string{LabelStore: s.store.name},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       new(s.id),
			LeaseDurationSeconds: new(int32(min(seconds, math.MaxInt32))), //nolint:gosec // it is in range
			AcquireTime:          &now,
			RenewTime:            &now,
		},
	}, metav1.CreateOptions{})
	s.lease = lease
	return err
}

// renew writes the Lease once. Other changes of the Lease do not matter.
func (s *session) renew(ctx context.Context) error {
	lease := s.lease.DeepCopy()
	lease.Spec.RenewTime = new(metav1.NewMicroTime(s.store.clock.Now()))
	renewed, err := s.store.leases.Update(ctx, lease, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		var current *coordinationv1.Lease
		if current, err = s.store.leases.Get(ctx, lease.Name, metav1.GetOptions{}); err == nil {
			if current.UID != lease.UID || ptr.Deref(current.Spec.HolderIdentity, "") != s.id {
				return keepalive.ErrSessionEnded
			}
			s.lease = current
			return errors.New("another client has changed the Lease: retrying soon")
		}
	}
	if apierrors.IsNotFound(err) {
		return keepalive.ErrSessionEnded
	}
	if err == nil {
		s.lease = renewed
	}
	return err
}

// deleteLease deletes the Lease.
func (s *session) deleteLease(ctx context.Context) error {
	return s.store.deleteLease(ctx, s.lease, metav1.Preconditions{UID: &s.lease.UID})
}

// deleteLease deletes a Lease if the preconditions are met.
func (s *store) deleteLease(ctx context.Context, lease *coordinationv1.Lease, preconditions metav1.Preconditions) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.leases.Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: &preconditions})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the Lease %s/%s: %w", s.namespace, lease.Name, err)
	}
	return nil
}

// Close implements kv.Session.
func (s *session) Close(ctx context.Context) error {
	s.Stop()
	_, err := s.store.update(ctx, 0, func(current *state) (bool, error) { return current.endSessions(s.id), nil })
	if err != nil {
		err = fmt.Errorf("ending the session %s; it expires by itself: %w", s.id, err)
	} else {
		s.store.removeSession(s)
	}
	// Even after an error: without its Lease, the session expires sooner.
	return errors.Join(err, s.deleteLease(ctx))
}
