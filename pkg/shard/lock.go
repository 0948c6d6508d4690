package shard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// lock is a shard's Lease as leader election sees it. On the wire the holder is the shard's name, as
// the contract wants it; here it is the process, so that two with one name know of each other.
type lock struct {
	Lease
	pod, instance string

	*tenure
	started chan struct{}

	mu      sync.Mutex
	current *coordinationv1.Lease
	leaving bool
}

var _ resourcelock.Interface = &lock{}

func newLock(lease Lease) *lock {
	lease.Duration = cmp.Or(lease.Duration, DefaultLeaseDuration)
	lease.RenewDeadline = cmp.Or(lease.RenewDeadline, DefaultRenewDeadline)
	lease.RetryPeriod = cmp.Or(lease.RetryPeriod, DefaultRetryPeriod)
	l := &lock{Lease: lease, pod: podIdentity(), started: make(chan struct{}), tenure: newTenure(lease.RenewDeadline)}
	l.instance = l.pod + "_" + string(uuid.NewUUID())
	return l
}

// podIdentity is the same for a container that is started again in its pod, and different elsewhere:
// the pod's UID if it is told, or else the machine's start and the host's name.
func podIdentity() string {
	identity := os.Getenv("POD_UID")
	if identity == "" {
		boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // elsewhere the name has to do
		host, _ := os.Hostname()
		identity = string(boot) + host
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(identity)))[:8]
}

// Identity of this process.
func (l *lock) Identity() string { return l.Name + "_" + l.instance }

// Describe names the Lease in messages.
func (l *lock) Describe() string { return l.Namespace + "/" + l.Name }

// RecordEvent does nothing: the sharder records events on Leases.
func (l *lock) RecordEvent(string) {}

func (l *lock) start() { close(l.started) }

// joined tells whether this process has been a member.
func (l *lock) joined() bool {
	select {
	case <-l.started:
		return true
	default:
		return false
	}
}

// noticed tells people when no sharder has taken notice of this shard: it would wait for objects for ever.
func (l *lock) noticed(ctx context.Context) {
	timer := time.NewTimer(l.Duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil && l.current.Labels[shardingv1alpha1.LabelState] == "" {
		logf.FromContext(ctx).Info("No sharder has taken this shard into the ring: does an instance lead that is the sharder too, or else does the external " +
			"sharder run, is there a ControllerRing of this name, and does it take shards from this namespace? Events of the lease may tell")
	}
}

// claim waits until nobody else with the same name is alive. A container that was started again in
// its pod finds its own old Lease, which nobody renews; another process there would within a few
// retries. One elsewhere may be cut off and at work, until its Lease has run out.
func (l *lock) claim(ctx context.Context) error {
	const renewals = 3
	first, err := l.read(ctx)
	if apierrors.IsNotFound(err) || err == nil && !l.foreign(first) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the lease %s: %w", l.Describe(), err)
	}
	patience := l.Duration
	if strings.HasPrefix(instanceOf(first), l.pod+"_") {
		patience = min(patience, renewals*l.RetryPeriod)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil
	}
	second, err := l.read(ctx)
	switch {
	case apierrors.IsNotFound(err), err == nil && !l.foreign(second):
		return nil
	case err != nil:
		return fmt.Errorf("reading the lease %s: %w", l.Describe(), err)
	case !first.Spec.RenewTime.Equal(second.Spec.RenewTime) || instanceOf(first) != instanceOf(second):
		return fmt.Errorf("%w: it renews the lease %s as %s. Give each instance a name of its own", ErrNameTaken, l.Describe(), instanceOf(second))
	}
	return l.succeed(ctx, second)
}

// succeed takes a Lease over from a process of the same name that has ended, in one write: at no time is
// the shard not a member, and so nothing moves.
func (l *lock) succeed(ctx context.Context, lease *coordinationv1.Lease) error {
	record := *resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	now := metav1.Now()
	record.HolderIdentity, record.AcquireTime, record.RenewTime = l.Identity(), now, now
	record.LeaderTransitions++
	l.fill(lease, record)
	if _, err := l.Client.Leases(l.Namespace).Update(ctx, lease, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("taking over the lease %s of an instance that has ended: %w", l.Describe(), err)
	}
	return nil
}

// release gives the Lease up if it is still this process's. If that fails, it runs out.
func (l *lock) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.RenewDeadline)
	defer cancel()
	for range attempts {
		lease, err := l.read(ctx)
		if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != l.Name || instanceOf(lease) != l.instance {
			return
		}
		now, second, nobody := metav1.NowMicro(), int32(1), ""
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &nobody, &second, &now
		if _, err = l.Client.Leases(l.Namespace).Update(ctx, lease, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return
		}
	}
}

// foreign tells whether another process holds the Lease under this shard's name.
func (l *lock) foreign(lease *coordinationv1.Lease) bool {
	return ptr.Deref(lease.Spec.HolderIdentity, "") == l.Name && instanceOf(lease) != l.instance
}

func instanceOf(lease *coordinationv1.Lease) string {
	return cmp.Or(lease.Annotations[shardingv1alpha1.AnnotationInstance], "unknown")
}

func (l *lock) read(ctx context.Context) (*coordinationv1.Lease, error) {
	return l.Client.Leases(l.Namespace).Get(ctx, l.Name, metav1.GetOptions{})
}

// Get reads the Lease.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease, err := l.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	l.current = lease
	if l.joined() && (ptr.Deref(lease.Spec.HolderIdentity, "") != l.Name || instanceOf(lease) != l.instance) {
		// Leader election would try to get it back. But others have gone on without this process.
		l.lose()
		return nil, nil, ErrLost
	}
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	switch record.HolderIdentity {
	case l.Name:
		record.HolderIdentity = l.Name + "_" + instanceOf(lease)
	case shardingv1alpha1.IdentityShardLeaseController:
		record.HolderIdentity = "" // the process before is dead, and there is nobody to wait for
	}
	// What it is compared by: two processes differ in the annotation alone.
	raw := fmt.Appendf(nil, "%+v", *record)
	return record, raw, nil
}

// Create writes a new Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.joined() { // it was deleted, because this process was dead for long
		l.lose()
		return ErrLost
	}
	began := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}}
	l.fill(lease, record)
	created, err := l.Client.Leases(l.Namespace).Create(ctx, lease, metav1.CreateOptions{})
	if err == nil {
		l.current = created
		l.renew(began)
	}
	return err
}

// Update writes the Lease, unless somebody has since it was read.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return errors.New("the lease was not read yet")
	}
	lease := l.current.DeepCopy()
	l.fill(lease, record)
	updated, err := l.Client.Leases(l.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
	if err == nil {
		l.current = updated
		l.renew(began)
	}
	return err
}

// announce tells everybody that this shard is leaving, so that it is given nothing more. It reads the
// Lease first: the sharder writes its state there, right after the shard has joined for one.
func (l *lock) announce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.RetryPeriod) // renewals wait for it
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving = true
	var err error
	for range attempts {
		var lease *coordinationv1.Lease
		if lease, err = l.read(ctx); err != nil {
			break
		}
		if ptr.Deref(lease.Spec.HolderIdentity, "") != l.Name || instanceOf(lease) != l.instance {
			return ErrLost
		}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardingv1alpha1.AnnotationLeaving, "true")
		if lease, err = l.Client.Leases(l.Namespace).Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
			l.current = lease
			return nil
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return fmt.Errorf("announcing that this shard leaves: %w", err) // the next renewal says it
}

func (l *lock) fill(lease *coordinationv1.Lease, record resourcelock.LeaderElectionRecord) {
	if record.HolderIdentity == l.Identity() {
		record.HolderIdentity = l.Name
	}
	spec := resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	holder := record.HolderIdentity
	spec.HolderIdentity = &holder
	lease.Spec = spec
	metav1.SetMetaDataLabel(&lease.ObjectMeta, shardingv1alpha1.LabelControllerRing, l.Ring)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardingv1alpha1.AnnotationInstance, l.instance)
	for annotation, value := range map[string]string{
		shardingv1alpha1.AnnotationResources: l.resources, shardingv1alpha1.AnnotationNamespaceSelector: l.namespaces,
	} {
		if value != "" {
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotation, value)
		} else {
			delete(lease.Annotations, annotation) // of the process before
		}
	}
	if l.leaving {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardingv1alpha1.AnnotationLeaving, "true")
	} else {
		delete(lease.Annotations, shardingv1alpha1.AnnotationLeaving) // of the process before
	}
}
