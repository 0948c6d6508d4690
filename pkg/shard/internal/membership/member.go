package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// maxAttempts bounds the attempts to write a Lease that other clients write, too.
const maxAttempts = 5

// Member is the lock that leader election uses to acquire and renew a shard's Lease. In the Lease the
// holder is the name of the shard, as the wire format requires; for leader election it is the process,
// which distinguishes two processes with the same name.
type Member struct {
	Lease
	*Tenure
	pod, instance string
	acquired      chan struct{} // closed when this process has acquired the Lease

	mu      sync.Mutex
	current *coordinationv1.Lease
	leaving bool
}

var _ resourcelock.Interface = &Member{}

func newMember(lease Lease) *Member {
	lease.Times = lease.WithDefaults()
	if lease.clock == nil {
		lease.clock = sinceBoot
	}
	m := &Member{Lease: lease, pod: podIdentity(), acquired: make(chan struct{}), Tenure: newTenure(lease.RenewDeadline, lease.clock)}
	m.instance = m.pod + "_" + string(uuid.NewUUID())
	return m
}

// Identity returns the identity of this process.
func (m *Member) Identity() string { return m.Name + "_" + m.instance }

// Describe returns the namespace and name of the Lease, for messages.
func (m *Member) Describe() string { return m.Namespace + "/" + m.Name }

// RecordEvent does nothing: the sharder records events on Leases.
func (m *Member) RecordEvent(string) {}

func (m *Member) markAcquired() { close(m.acquired) }

// joined reports whether this process is, or has been, a member.
func (m *Member) joined() bool {
	select {
	case <-m.acquired:
		return true
	default:
		return false
	}
}

// LacksSharder waits for one lease duration and reports whether no sharder has written a state to the
// Lease. Such a shard is assigned no objects.
func (m *Member) LacksSharder(ctx context.Context) bool {
	if !sleep(ctx, m.LeaseDuration) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current != nil && m.current.Labels[shardingv1alpha1.LabelState] == ""
}

// sleep returns false if ctx ends before the pause is over.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// withTimeout returns a context with the timeout of one request.
func (m *Member) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, m.RequestTimeout())
}

func (m *Member) read(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := m.withTimeout(ctx)
	defer cancel()
	return m.Client.Leases(m.Namespace).Get(ctx, m.Name, metav1.GetOptions{})
}

func (m *Member) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := m.withTimeout(ctx)
	defer cancel()
	return m.Client.Leases(m.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
}

// holds reports whether this process holds a Lease.
func (m *Member) holds(lease *coordinationv1.Lease) bool {
	return ptr.Deref(lease.Spec.HolderIdentity, "") == m.Name && instanceOf(lease) == m.instance
}

func instanceOf(lease *coordinationv1.Lease) string {
	return cmp.Or(lease.Annotations[shardingv1alpha1.AnnotationInstance], "unknown")
}

// Get implements resourcelock.Interface.
func (m *Member) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lease, err := m.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	if m.joined() && !m.holds(lease) {
		// Leader election would try to acquire it again, but other shards may already own its objects.
		m.lose()
		return nil, nil, ErrLeaseLost
	}
	m.current = lease
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	switch record.HolderIdentity {
	case m.Name:
		record.HolderIdentity = m.Name + "_" + instanceOf(lease)
	case shardingv1alpha1.IdentityShardLeaseController:
		record.HolderIdentity = "" // the earlier process is dead: do not wait for the expiry
	}
	// Leader election compares the raw record: two processes with the same name differ only in the
	// annotation.
	raw := fmt.Appendf(nil, "%+v", *record)
	return record, raw, nil
}

// Create implements resourcelock.Interface.
func (m *Member) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if m.joined() { // the Lease was deleted
		m.lose()
		return ErrLeaseLost
	}
	began := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
	m.fill(lease, record)
	ctx, cancel := m.withTimeout(ctx)
	defer cancel()
	created, err := m.Client.Leases(m.Namespace).Create(ctx, lease, metav1.CreateOptions{})
	if err == nil {
		m.current = created
		m.markRenewed(began)
	}
	return err
}

// Update implements resourcelock.Interface. It fails if another client has written the Lease since it was read.
func (m *Member) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost.Err() != nil {
		return ErrLeaseLost // leader election would renew it without another read
	}
	if m.current == nil {
		return errors.New("the lease has not been read yet")
	}
	lease := m.current.DeepCopy()
	m.fill(lease, record)
	updated, err := m.update(ctx, lease)
	if err == nil {
		m.current = updated
		m.markRenewed(began)
	}
	return err
}

// AnnounceLeaving records on the Lease that this shard is leaving, so that it is assigned no objects. It
// reads the Lease first, because the sharder writes its state label, too.
func (m *Member) AnnounceLeaving(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.RetryPeriod) // renewals wait for m.mu
	defer cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaving = true
	var err error
	for range maxAttempts {
		var lease *coordinationv1.Lease
		if lease, err = m.read(ctx); err != nil {
			break
		}
		if !m.holds(lease) {
			return ErrLeaseLost
		}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardingv1alpha1.AnnotationLeaving, "true")
		if lease, err = m.update(ctx, lease); err == nil {
			m.current = lease
			return nil
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return fmt.Errorf("recording on the lease %s that this shard is leaving: %w", m.Describe(), err) // the next renewal records it
}

// release releases the Lease if this process still holds it. If that fails, the Lease expires.
func (m *Member) release(ctx context.Context) {
	err := m.retryRelease(ctx, func(ctx context.Context) error {
		lease, err := m.read(ctx)
		if err != nil || !m.holds(lease) {
			return err
		}
		if m.RenewalAnnotations != nil { // they are no longer updated
			for annotation := range m.RenewalAnnotations() {
				delete(lease.Annotations, annotation)
			}
		}
		now, second, noHolder := metav1.NowMicro(), int32(1), ""
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &noHolder, &second, &now
		_, err = m.update(ctx, lease)
		return err
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to release the shard lease, so it has to expire", "lease", m.Describe())
	}
}

// fill sets the record, the labels and the annotations of this process on a Lease.
func (m *Member) fill(lease *coordinationv1.Lease, record resourcelock.LeaderElectionRecord) {
	if record.HolderIdentity == m.Identity() {
		record.HolderIdentity = m.Name
	}
	spec := resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	holder := record.HolderIdentity
	spec.HolderIdentity = &holder
	lease.Spec = spec
	metav1.SetMetaDataLabel(&lease.ObjectMeta, shardingv1alpha1.LabelControllerRing, m.Ring)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardingv1alpha1.AnnotationInstance, m.instance)
	annotate := func(annotation, value string) {
		if value != "" {
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotation, value)
		} else {
			delete(lease.Annotations, annotation) // of an earlier process
		}
	}
	for annotation, value := range m.Annotations {
		annotate(annotation, value)
	}
	if m.RenewalAnnotations != nil {
		for annotation, value := range m.RenewalAnnotations() {
			annotate(annotation, value)
		}
	}
	leaving := ""
	if m.leaving {
		leaving = "true"
	}
	annotate(shardingv1alpha1.AnnotationLeaving, leaving)
}
