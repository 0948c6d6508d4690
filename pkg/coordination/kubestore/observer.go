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

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/sightings"
)

// observed reads the state, after ending the sessions that are over, if it is time to look for those.
func (s *store) observed(ctx context.Context) (*state, error) {
	current, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	if !s.seen.Due(s.clock.Now(), sightings.Pause(current.durations()...)) {
		return current.state, nil
	}
	ended, err := s.endSessions(ctx, current.state)
	s.seen.Tell(ctx, err)
	if err != nil { // what was read is right all the same
		return current.state, nil //nolint:nilerr // it was told
	}
	return ended, nil
}

// endSessions ends the sessions that are over, and returns the state without them. What is over stays so: its owner
// has counted it as lost before.
func (s *store) endSessions(ctx context.Context, current *state) (*state, error) {
	asked := s.clock.Now()
	leases, err := s.listLeases(ctx)
	if err != nil {
		return nil, err
	}
	unchanged := s.seen.Note(asked, s.clock.Now(), versionsOf(leases))
	for _, lease := range left(unchanged, leases, current, s.leaseName) {
		precondition := metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}
		if err := s.removeLease(ctx, &lease, precondition); err != nil {
			return nil, err
		}
	}
	over := over(unchanged, current, s.leaseName)
	if len(over) == 0 {
		return current, nil
	}
	_, err = s.change(ctx, 0, func(now *state) (bool, error) {
		current = now
		return current.end(over...), nil
	})
	if err != nil {
		return nil, fmt.Errorf("ending sessions that are over: %w", err)
	}
	return current, nil
}

func (s *store) listLeases(ctx context.Context) ([]coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// Without a resourceVersion the answer is as new as the question.
	list, err := s.leases.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{LabelStore: s.name}.String()})
	if err != nil {
		return nil, fmt.Errorf("looking whose sessions are alive: %w", err)
	}
	return list.Items, nil
}

// versionsOf are what tells a Lease from what it was, by name.
func versionsOf(leases []coordinationv1.Lease) map[string]string {
	versions := make(map[string]string, len(leases))
	for i := range leases {
		versions[leases[i].Name] = string(leases[i].UID) + "/" + leases[i].ResourceVersion
	}
	return versions
}

// over are the sessions that have ended: their Lease is gone, or has not changed for their duration. The Leases were
// listed after the state was read, so those of all sessions in it were there before.
func over(unchanged map[string]time.Duration, current *state, leaseName func(id string) string) []string {
	var ids []string
	for id, session := range current.Sessions {
		if since, there := unchanged[leaseName(id)]; !there || since >= session.duration() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// left are the Leases of processes that have died while they opened a session or after it was ended.
func left(unchanged map[string]time.Duration, leases []coordinationv1.Lease, current *state, leaseName func(id string) string) []coordinationv1.Lease {
	owned := map[string]bool{}
	for id := range current.Sessions {
		owned[leaseName(id)] = true
	}
	return slices.DeleteFunc(slices.Clone(leases), func(lease coordinationv1.Lease) bool {
		duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 1)) * time.Second
		return owned[lease.Name] || unchanged[lease.Name] < duration
	})
}
