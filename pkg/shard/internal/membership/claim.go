package membership

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
)

const (
	// missedRenewals is after how many retry periods without a renewal an earlier process in the same pod counts as dead.
	missedRenewals = 3
	// longestClaim bounds the wait for a Lease with an absurd duration. The sharder refuses such Leases, too.
	longestClaim = time.Hour
)

// podIdentity is the same for a container that restarts in its pod, and different elsewhere: the pod's UID if that is
// known, or else the machine's boot ID and the host's name.
func podIdentity() string {
	identity := os.Getenv("POD_UID")
	if identity == "" {
		boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // elsewhere the name must suffice
		host, _ := os.Hostname()
		identity = string(boot) + host
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(identity)))[:8]
}

// claim waits until no other process with the same name is alive. A container that restarts in its pod finds its own old
// Lease, which nobody renews; another process there would renew it within a few retry periods. A process elsewhere may be
// cut off and at work until its Lease has expired.
func (m *Member) claim(ctx context.Context) error {
	first, err := m.read(ctx)
	if apierrors.IsNotFound(err) || err == nil && !m.foreign(first) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the lease %s: %w", m.Describe(), err)
	}
	if !sleep(ctx, m.claimAfter(first)) {
		return nil
	}
	second, err := m.read(ctx)
	switch {
	case apierrors.IsNotFound(err), err == nil && !m.foreign(second):
		return nil
	case err != nil:
		return fmt.Errorf("reading the lease %s: %w", m.Describe(), err)
	case !first.Spec.RenewTime.Equal(second.Spec.RenewTime) || instanceOf(first) != instanceOf(second):
		return fmt.Errorf("%w: it renews the lease %s as %s. Give each instance a name of its own", ErrNameTaken, m.Describe(), instanceOf(second))
	}
	return m.succeed(ctx, second)
}

// claimAfter is how long to watch another process's Lease before it can be taken over: as long as that Lease itself lasts,
// which may be longer than this process's.
func (m *Member) claimAfter(lease *coordinationv1.Lease) time.Duration {
	if strings.HasPrefix(instanceOf(lease), m.pod+"_") {
		return min(m.LeaseDuration, missedRenewals*m.RetryPeriod)
	}
	theirs := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return min(max(m.LeaseDuration, theirs), longestClaim)
}

// foreign tells whether another process holds the Lease under this shard's name.
func (m *Member) foreign(lease *coordinationv1.Lease) bool {
	return ptr.Deref(lease.Spec.HolderIdentity, "") == m.Name && instanceOf(lease) != m.instance
}

// succeed takes a Lease over from a process of the same name that has ended, in one write: at no time is the shard not a
// member, and so nothing moves.
func (m *Member) succeed(ctx context.Context, lease *coordinationv1.Lease) error {
	record := *resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	now := metav1.Now()
	record.HolderIdentity, record.AcquireTime, record.RenewTime = m.Identity(), now, now
	record.LeaderTransitions++
	m.fill(lease, record)
	if _, err := m.update(ctx, lease); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("taking over the lease %s of an instance that has ended: %w", m.Describe(), err)
	}
	return nil
}
