package kubestore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// A store looks at the Leases again when this part of the shortest session's duration has passed, and at least and
// at most so often.
const (
	looks    = 10
	minPause = 200 * time.Millisecond
	maxPause = 2 * time.Second
)

// observer notes for how long Leases have not changed, on this process's clock.
type observer struct {
	mu   sync.Mutex
	seen map[string]sighting // by name
	next time.Time
}

// sighting is what a Lease was when it was first seen so.
type sighting struct {
	uid             types.UID
	resourceVersion string
	since           time.Time
}

// findings are what an observer has found out.
type findings struct {
	// dead are sessions that are over, and stay so: their owners have counted them as lost before.
	dead []string
	// left are Leases whose sessions are not in the store, or no more.
	left []coordinationv1.Lease
}

// due tells whether it is time to look, and takes the turn.
func (o *observer) due(now time.Time, shortest time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Before(o.next) {
		return false
	}
	o.next = now.Add(pauseFor(shortest))
	return true
}

func pauseFor(shortest time.Duration) time.Duration {
	return min(max(shortest/looks, minPause), maxPause)
}

// note compares Leases with what they were. They were listed after the state was read, between the two times.
func (o *observer) note(asked, answered time.Time, leases []coordinationv1.Lease, current *state, leaseName func(id string) string) findings {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := make(map[string]sighting, len(leases))
	unchanged := map[string]time.Duration{}
	for i := range leases {
		lease := &leases[i]
		is := sighting{uid: lease.UID, resourceVersion: lease.ResourceVersion, since: answered}
		if was, known := o.seen[lease.Name]; known && was.uid == is.uid && was.resourceVersion == is.resourceVersion {
			is.since = was.since
		}
		seen[lease.Name] = is
		unchanged[lease.Name] = asked.Sub(is.since)
	}
	o.seen = seen
	return judge(unchanged, leases, current, leaseName)
}

// judge decides from how long Leases have not changed.
func judge(unchanged map[string]time.Duration, leases []coordinationv1.Lease, current *state, leaseName func(id string) string) (found findings) {
	owned := map[string]bool{}
	for id, session := range current.Sessions {
		name := leaseName(id)
		owned[name] = true
		if since, there := unchanged[name]; !there || since >= session.duration() {
			found.dead = append(found.dead, id)
		}
	}
	slices.Sort(found.dead)
	for i := range leases {
		limit := time.Duration(ptr.Deref(leases[i].Spec.LeaseDurationSeconds, 1)) * time.Second
		if name := leases[i].Name; !owned[name] && unchanged[name] >= limit {
			found.left = append(found.left, leases[i])
		}
	}
	return found
}

// observed reads the state, and before that ends the sessions that are over.
func (s *store) observed(ctx context.Context) (*state, error) {
	current, err := s.read(ctx)
	if err != nil || !s.observer.due(s.clock.Now(), current.shortest(maxPause*looks)) {
		return stateOf(current), err
	}
	asked := s.clock.Now()
	leases, err := s.listLeases(ctx)
	if err != nil {
		return nil, err
	}
	found := s.observer.note(asked, s.clock.Now(), leases, current.state, s.leaseName)
	for i := range found.left {
		lease := &found.left[i]
		precondition := metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}
		if err := s.removeLease(ctx, lease, precondition); err != nil {
			return nil, err
		}
	}
	if len(found.dead) == 0 {
		return current.state, nil
	}
	ended := newState()
	_, err = s.change(ctx, func(current *state) (bool, error) {
		ended = current
		return current.end(found.dead...), nil
	})
	if err != nil {
		return nil, fmt.Errorf("ending sessions that are over: %w", err)
	}
	return ended, nil
}

func stateOf(read *document) *state {
	if read == nil {
		return nil
	}
	return read.state
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
