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
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// missedRenewals is the number of retry periods without a renewal after which an earlier process in
	// the same pod counts as dead.
	missedRenewals = 3
	// maxClaimDelay bounds the wait for a Lease with an excessive duration. The sharder refuses such Leases.
	maxClaimDelay = time.Hour
)

// podUID is the environment variable with the UID of this process's pod.
const podUID = "POD_UID"

// podIdentity returns a value that differs between pods and survives the restart of a container.
// Without the pod's UID it is random, because another live process may have the same name.
func podIdentity() string {
	identity := os.Getenv(podUID)
	if identity == "" {
		identity = string(uuid.NewUUID())
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(identity)))[:8]
}

// claim waits until no other process with the same name is alive, and takes over its Lease. It returns
// ErrNameTaken if the Lease is renewed meanwhile.
func (m *Member) claim(ctx context.Context) error {
	first, err := m.read(ctx)
	if apierrors.IsNotFound(err) || err == nil && !m.heldByOther(first) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the lease %s: %w", m.Describe(), err)
	}
	delay := m.claimDelay(first)
	m.logWait(ctx, delay)
	if !sleep(ctx, delay) {
		return nil
	}
	second, err := m.read(ctx)
	switch {
	case apierrors.IsNotFound(err), err == nil && !m.heldByOther(second):
		return nil
	case err != nil:
		return fmt.Errorf("reading the lease %s: %w", m.Describe(), err)
	case !first.Spec.RenewTime.Equal(second.Spec.RenewTime) || instanceOf(first) != instanceOf(second):
		return fmt.Errorf("%w: it renews the lease %s as %s; give each shard a unique name", ErrNameTaken, m.Describe(), instanceOf(second))
	}
	return m.takeOver(ctx, second)
}

// logWait explains why this process is not ready yet. The wait can take up to maxClaimDelay.
func (m *Member) logWait(ctx context.Context, delay time.Duration) {
	log := klog.FromContext(ctx).WithValues("lease", m.Describe(), "wait", delay.String())
	if os.Getenv(podUID) == "" {
		log.Info("Waiting for the lease of an earlier process. Set " + podUID + " from metadata.uid (downward API): " +
			"a container that restarts in its pod then waits for a few seconds only")
		return
	}
	log.Info("Waiting for the lease of an earlier process")
}

// claimDelay returns the time without a renewal after which the other process counts as dead. In the same
// pod, a live process renews its Lease within a few retry periods. In another pod, it may be cut off and
// work until its Lease has expired, whose duration may be longer than that of this process.
func (m *Member) claimDelay(lease *coordinationv1.Lease) time.Duration {
	if strings.HasPrefix(instanceOf(lease), m.pod+"_") {
		return min(m.LeaseDuration, missedRenewals*m.RetryPeriod)
	}
	expiry := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return min(max(m.LeaseDuration, expiry), maxClaimDelay)
}

// heldByOther reports whether another process holds the Lease under this shard's name.
func (m *Member) heldByOther(lease *coordinationv1.Lease) bool {
	return ptr.Deref(lease.Spec.HolderIdentity, "") == m.Name && instanceOf(lease) != m.instance
}

// takeOver takes over the Lease of a dead process with the same name in one write. The shard is a member
// throughout, so no object moves.
func (m *Member) takeOver(ctx context.Context, lease *coordinationv1.Lease) error {
	record := *resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	now := metav1.Now()
	record.HolderIdentity, record.AcquireTime, record.RenewTime = m.Identity(), now, now
	record.LeaderTransitions++
	m.fill(lease, record)
	if _, err := m.update(ctx, lease); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("taking over the lease %s of a dead process: %w", m.Describe(), err)
	}
	return nil
}
