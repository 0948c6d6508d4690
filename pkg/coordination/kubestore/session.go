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

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/tenure"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// session is a line in the ConfigMap, and a Lease that is renewed.
type session struct {
	*tenure.Tenure
	store *store
	id    string
	// lease is the Lease as it was after the last renewal. Only renew changes it.
	lease *coordinationv1.Lease
}

// Open implements coordination.Store. The Lease is there before the session is: one without a Lease is over.
func (s *store) Open(ctx context.Context, name string, duration time.Duration) (kv.Session, error) {
	seconds := int64(max(1, (duration+time.Second-1)/time.Second))
	opened := &session{store: s, id: newID(name)}
	sent := s.clock.Now()
	if err := opened.create(ctx, seconds); err != nil {
		if apierrors.IsNotFound(err) { // of what is created, only the namespace can be missing
			err = fmt.Errorf("the namespace %s of the store does not exist: create it, or set Options.Namespace to another one: %w", s.namespace, err)
		}
		return nil, fmt.Errorf("opening a session for %s: %w", name, err)
	}
	opened.Tenure = tenure.Begin(ctx, sent, tenure.Options{
		Clock:    s.clock,
		Duration: time.Duration(seconds) * time.Second,
		Renew:    opened.renew,
	})
	_, err := s.change(ctx, 0, func(current *state) (bool, error) {
		if !opened.Held() {
			return false, kv.ErrSessionLost
		}
		current.open(opened.id, tenant{Seconds: seconds})
		return true, nil
	})
	if err != nil {
		// It may be there all the same, and then ends because it has no Lease.
		opened.End()
		return nil, errors.Join(fmt.Errorf("opening a session for %s: %w", name, err), opened.remove(context.WithoutCancel(ctx)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[opened.id] = opened
	return opened, nil
}

// newID makes an ID that is never used again, is good for the name of a Lease, and shows whose it is.
func newID(name string) string {
	const most, random = 40, 16
	readable := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-")
	readable = strings.Trim(readable[:min(len(readable), most)], "-")
	return strings.TrimPrefix(readable+"-"+strings.ToLower(rand.Text()[:random]), "-")
}

func (s *store) ownSessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sessions))
}

// forget forgets a session that is not in the ConfigMap any more, and is refused from now on.
func (s *store) forget(ended *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, ended.id)
}

func (s *store) leaseName(id string) string { return s.name + "-" + id }

// ID implements coordination.Session.
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

// renew writes the Lease once. Whatever else somebody has changed on it does not matter.
func (s *session) renew(ctx context.Context) error {
	lease := s.lease.DeepCopy()
	lease.Spec.RenewTime = new(metav1.NewMicroTime(s.store.clock.Now()))
	renewed, err := s.store.leases.Update(ctx, lease, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		var current *coordinationv1.Lease
		if current, err = s.store.leases.Get(ctx, lease.Name, metav1.GetOptions{}); err == nil {
			if current.UID != lease.UID || ptr.Deref(current.Spec.HolderIdentity, "") != s.id {
				return tenure.ErrEnded
			}
			s.lease = current
			return errors.New("somebody else has written the lease: it is renewed soon")
		}
	}
	if apierrors.IsNotFound(err) {
		return tenure.ErrEnded
	}
	if err == nil {
		s.lease = renewed
	}
	return err
}

// remove deletes the Lease.
func (s *session) remove(ctx context.Context) error {
	return s.store.removeLease(ctx, s.lease, metav1.Preconditions{UID: &s.lease.UID})
}

// removeLease deletes a Lease if it is the one that is meant.
func (s *store) removeLease(ctx context.Context, lease *coordinationv1.Lease, preconditions metav1.Preconditions) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.leases.Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: &preconditions})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the Lease %s/%s: %w", s.namespace, lease.Name, err)
	}
	return nil
}

// Close implements coordination.Session.
func (s *session) Close(ctx context.Context) error {
	s.End()
	_, err := s.store.change(ctx, 0, func(current *state) (bool, error) { return current.end(s.id), nil })
	if err != nil {
		err = fmt.Errorf("ending the session %s, which now ends by itself: %w", s.id, err)
	} else {
		s.store.forget(s)
	}
	// Also then, so that it ends sooner.
	return errors.Join(err, s.remove(ctx))
}
