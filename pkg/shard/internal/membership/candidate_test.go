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

// memoryLock is a Lease in memory. As with a resourceVersion, a write fails unless the last version was read.
type memoryLock struct {
	mu            sync.Mutex
	record        *resourcelock.LeaderElectionRecord
	version, read int
}

func (m *memoryLock) holder() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.HolderIdentity
}

func (m *memoryLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, m.Describe())
	}
	raw, err := json.Marshal(m.record)
	m.read = m.version
	return new(*m.record), raw, err
}

func (m *memoryLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return m.Update(ctx, record)
}

func (m *memoryLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read != m.version {
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, m.Describe(), errors.New("another client has written it"))
	}
	m.record = &record
	m.version++
	m.read = m.version
	return nil
}

// takeOver writes the Lease as another candidate does after the expiry.
func (m *memoryLock) takeOver(holder string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record = &resourcelock.LeaderElectionRecord{HolderIdentity: holder}
	m.version++
}

func (*memoryLock) RecordEvent(string) {}
func (*memoryLock) Identity() string   { return "this" }
func (*memoryLock) Describe() string   { return "memory" }

// TestFormerLeaderReleasesNothing stops a leader after another process has taken over, as after a pause.
func TestFormerLeaderReleasesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		takenOverBy string
		working     bool
		want        string // the holder afterwards
		lost        bool
	}{
		"it still leads":         {want: ""},
		"another process leads":  {takenOverBy: "other", want: "other", lost: true},
		"its work has not ended": {working: true, want: "this"},
	} {
		t.Run(name, func(t *testing.T) {
			lease := &memoryLock{}
			c := NewCandidate(Times{LeaseDuration: 3 * time.Hour, RenewDeadline: 2 * time.Hour, RetryPeriod: time.Hour}, lease)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			leading := make(chan struct{})
			elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock: c, LeaseDuration: 3 * time.Hour, RenewDeadline: 2 * time.Hour, RetryPeriod: time.Hour, ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { close(leading) },
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
			<-leading
			if test.takenOverBy != "" {
				lease.takeOver(test.takenOverBy)
			}
			if test.working {
				_, done := c.Work(t.Context())
				defer done()
			}
			stop()
			<-ended
			if holder := lease.holder(); holder != test.want {
				t.Errorf("the holder of the lease is %q, want %q", holder, test.want)
			}
			select {
			case <-c.Lost():
				if !test.lost {
					t.Error("the lease counts as lost")
				}
			default:
				if test.lost {
					t.Error("the lease does not count as lost")
				}
			}
		})
	}
}

// TestLostLeadershipIsNotRenewed renews a Lease without another read, as leader election may do.
func TestLostLeadershipIsNotRenewed(t *testing.T) {
	lease := &memoryLock{}
	c := NewCandidate(Times{}.WithDefaults(), lease)
	own := resourcelock.LeaderElectionRecord{HolderIdentity: c.Identity()}
	if err := c.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	lease.takeOver("other")
	if _, _, err := c.Get(t.Context()); err != nil && !errors.Is(err, ErrLeaseLost) {
		t.Fatal(err)
	}
	if err := c.Update(t.Context(), own); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("the renewal returned %v", err)
	}
	if holder := lease.holder(); holder != "other" {
		t.Errorf("the holder of the lease is %q, want other", holder)
	}
}
