package kubestore

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/staleness"
)

// readAndEndExpired reads the state. If an observation is due, it first ends the expired sessions.
func (s *store) readAndEndExpired(ctx context.Context) (*state, error) {
	current, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	if !s.tracker.Due(s.clock.Now(), staleness.Interval(current.durations()...)) {
		return current.state, nil
	}
	ended, err := s.endExpiredSessions(ctx, current.state)
	s.tracker.LogError(ctx, err)
	if err != nil { // the state is valid nevertheless
		return current.state, nil //nolint:nilerr // it was logged
	}
	return ended, nil
}

// endExpiredSessions ends the expired sessions, and returns the state without them. Their owners have counted them as lost before.
func (s *store) endExpiredSessions(ctx context.Context, current *state) (*state, error) {
	sentAt := s.clock.Now()
	leases, err := s.listLeases(ctx)
	if err != nil {
		return nil, err
	}
	unchangedFor := s.tracker.Observe(sentAt, s.clock.Now(), leaseVersions(leases))
	for _, lease := range orphanedLeases(unchangedFor, leases, current, s.leaseName) {
		precondition := metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}
		if err := s.deleteLease(ctx, &lease, precondition); err != nil {
			return nil, err
		}
	}
	expired := expiredSessions(unchangedFor, current, s.leaseName)
	if len(expired) == 0 {
		return current, nil
	}
	_, err = s.update(ctx, 0, func(now *state) (bool, error) {
		current = now
		return current.endSessions(expired...), nil
	})
	if err != nil {
		return nil, fmt.Errorf("ending expired sessions: %w", err)
	}
	return current, nil
}

func (s *store) listLeases(ctx context.Context) ([]coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// Without a resourceVersion the response is not older than the request.
	list, err := s.leases.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{LabelStore: s.name}.String()})
	if err != nil {
		return nil, fmt.Errorf("listing the Leases of the sessions: %w", err)
	}
	return list.Items, nil
}

// leaseVersions returns a version of each Lease, by name.
func leaseVersions(leases []coordinationv1.Lease) map[string]string {
	versions := make(map[string]string, len(leases))
	for i := range leases {
		versions[leases[i].Name] = string(leases[i].UID) + "/" + leases[i].ResourceVersion
	}
	return versions
}

// expiredSessions returns the sessions whose Lease is gone, or has not changed for their duration. The Leases were listed after the
// state was read, so the Lease of each session in it had been created before.
func expiredSessions(unchangedFor map[string]time.Duration, current *state, leaseName func(id string) string) []string {
	var ids []string
	for id, session := range current.Sessions {
		if since, ok := unchangedFor[leaseName(id)]; !ok || since >= session.duration() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// orphanedLeases returns the expired Leases without a session: their processes died while they opened a session, or after its end.
func orphanedLeases(unchangedFor map[string]time.Duration, leases []coordinationv1.Lease, current *state, leaseName func(id string) string) []coordinationv1.Lease {
	owned := map[string]bool{}
	for id := range current.Sessions {
		owned[leaseName(id)] = true
	}
	return slices.DeleteFunc(slices.Clone(leases), func(lease coordinationv1.Lease) bool {
		duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 1)) * time.Second
		return owned[lease.Name] || unchangedFor[lease.Name] < duration
	})
}
