package membership

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// memory is a Lease without an API server. Who writes it has to have seen what is there.
type memory struct {
	mu            sync.Mutex
	record        *resourcelock.LeaderElectionRecord
	version, seen int
}

func (m *memory) holder() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.HolderIdentity
}

func (m *memory) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, m.Describe())
	}
	raw, err := json.Marshal(m.record)
	m.seen = m.version
	return new(*m.record), raw, err
}

func (m *memory) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return m.Update(ctx, record)
}

func (m *memory) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen != m.version {
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, m.Describe(), errors.New("somebody else has written it"))
	}
	m.record = &record
	m.version++
	m.seen = m.version
	return nil
}

// take writes it as another one does that waited for long enough.
func (m *memory) take(holder string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record = &resourcelock.LeaderElectionRecord{HolderIdentity: holder}
	m.version++
}

func (*memory) RecordEvent(string) {}
func (*memory) Identity() string   { return "this" }
func (*memory) Describe() string   { return "memory" }

// TestFormerLeaderReleasesNothing has a leader end after another has taken over, as one does that was paused.
func TestFormerLeaderReleasesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		takenBy string
		atWork  bool
		want    string
		lost    bool
	}{
		"still its own":              {want: ""},
		"another one leads":          {takenBy: "other", want: "other", lost: true},
		"its work has not yet ended": {atWork: true, want: "this"},
	} {
		t.Run(name, func(t *testing.T) {
			lease := &memory{}
			c := NewCandidate(Times{LeaseDuration: 3 * time.Hour, RenewDeadline: 2 * time.Hour, RetryPeriod: time.Hour}, lease)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			leads := make(chan struct{})
			elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock: c, LeaseDuration: 3 * time.Hour, RenewDeadline: 2 * time.Hour, RetryPeriod: time.Hour, ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { close(leads) },
					OnStoppedLeading: func() {},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				elector.Run(ctx)
			}()
			<-leads
			if test.takenBy != "" {
				lease.take(test.takenBy)
			}
			if test.atWork {
				_, done := c.Work(t.Context())
				defer done()
			}
			stop()
			<-ended
			if holder := lease.holder(); holder != test.want {
				t.Errorf("the lease is with %q, want %q", holder, test.want)
			}
			select {
			case <-c.Lost():
				if !test.lost {
					t.Error("it takes its lease for lost")
				}
			default:
				if test.lost {
					t.Error("it does not know that its lease is lost")
				}
			}
		})
	}
}

// TestLostLeadershipIsNotRenewed has leader election renew a Lease with what it read before.
func TestLostLeadershipIsNotRenewed(t *testing.T) {
	lease := &memory{}
	c := NewCandidate(Times{}.WithDefaults(), lease)
	own := resourcelock.LeaderElectionRecord{HolderIdentity: c.Identity()}
	if err := c.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	lease.take("other")
	if _, _, err := c.Get(t.Context()); err != nil && !errors.Is(err, ErrLeaseLost) {
		t.Fatal(err)
	}
	if err := c.Update(t.Context(), own); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("the renewal returned %v", err)
	}
	if holder := lease.holder(); holder != "other" {
		t.Errorf("the lease is with %q", holder)
	}
}
