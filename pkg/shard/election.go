package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/membership"
)

// election is the manager's.
type election struct {
	*membership.Candidate
	lock            *resourcelock.LeaseLock // nil if the user has set another one
	namespace, name string
}

// elect prepares the manager's election, if the mode needs one. Names and times that its user has chosen stay.
func (s *Shard) elect(options *manager.Options) error {
	mode := s.options.Mode
	if mode == ModeAlone {
		options.LeaderElection = false
	}
	labels := s.electionLabels(options.LeaderElectionLabels)
	if options.LeaderElection {
		options.LeaderElectionLabels = labels
	}
	if !mode.elects() {
		return nil
	}
	name := s.Ring() + "-leader"
	if mode.sharder() {
		name = s.Ring() + "-sharder"
	}
	options.LeaderElection = true
	options.LeaderElectionID = cmp.Or(options.LeaderElectionID, name)
	options.LeaderElectionNamespace = cmp.Or(options.LeaderElectionNamespace, s.options.Namespace)
	options.LeaseDuration = cmp.Or(options.LeaseDuration, &s.options.LeaseDuration)
	options.RenewDeadline = cmp.Or(options.RenewDeadline, &s.options.RenewDeadline)
	options.RetryPeriod = cmp.Or(options.RetryPeriod, &s.options.RetryPeriod)
	// The next one can begin at once: the process ends when the manager does. What is still at work keeps the
	// Lease from being released.
	options.LeaderElectionReleaseOnCancel = true
	if mode == ModeLead && options.Controller.EnableWarmup == nil {
		options.Controller.EnableWarmup = new(true)
	}
	made := &election{namespace: options.LeaderElectionNamespace, name: options.LeaderElectionID}
	lock := options.LeaderElectionResourceLockInterface
	if lock == nil {
		var err error
		if made.lock, err = s.electionLock(options, labels); err != nil {
			return err
		}
		lock = made.lock
	}
	made.Candidate = membership.NewCandidate(membership.Times{
		LeaseDuration: *options.LeaseDuration, RenewDeadline: *options.RenewDeadline, RetryPeriod: *options.RetryPeriod,
	}, lock)
	s.election = made
	options.LeaderElectionResourceLockInterface = made
	return nil
}

// electionLabels tell people and programs what the leader is to the ring. Labels stay on a Lease: what the leader
// was when the operator ran in another mode has to be taken back.
func (s *Shard) electionLabels(others map[string]string) map[string]string {
	labels := map[string]string{shardingv1alpha1.LabelSharder: "", shardingv1alpha1.LabelLeader: ""}
	switch mode := s.options.Mode; {
	case mode.sharder():
		labels[shardingv1alpha1.LabelSharder] = s.Ring()
	case mode == ModeLead:
		labels[shardingv1alpha1.LabelLeader] = s.Ring()
	}
	for key, value := range others {
		if labels[key] == "" {
			labels[key] = value
		}
	}
	return labels
}

// electionLock is the Lease of the election, on the cluster that the user has chosen for it.
func (s *Shard) electionLock(options *manager.Options, labels map[string]string) (*resourcelock.LeaseLock, error) {
	config := s.config
	if options.LeaderElectionConfig != nil {
		config = rest.CopyConfig(options.LeaderElectionConfig)
		config.QPS, config.RateLimiter = -1, nil
	}
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the election: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: options.LeaderElectionNamespace, Name: options.LeaderElectionID},
		Client:     &describedLeases{leases, s},
		LockConfig: resourcelock.ResourceLockConfig{Identity: s.Name() + "_" + string(uuid.NewUUID())},
		Labels:     labels,
	}, nil
}

// joinElection connects the election to a manager.
func (s *Shard) joinElection(mgr manager.Manager) {
	if s.election == nil {
		return
	}
	if s.election.lock != nil {
		//nolint:staticcheck // leader election has no other way to record its events
		s.election.lock.LockConfig.EventRecorder = mgr.GetEventRecorderFor(s.election.Identity())
	}
	if !s.options.Mode.spread() {
		s.election.AfterLoss(func() { s.end(ErrLost) })
	}
}

// spare is how long the Lease that this process depends on still lasts after it is lost.
func (s *Shard) spare() time.Duration {
	if s.election != nil && !s.options.Mode.spread() {
		return s.election.Spare()
	}
	return s.options.LeaseDuration - s.options.RenewDeadline
}

// describedLeases are Leases that tell what the leader works on, where it works on everything. That is for people, and takes
// no write of its own.
type describedLeases struct {
	coordinationv1client.LeasesGetter
	shard *Shard
}

// Leases implements coordinationv1client.LeasesGetter.
func (d *describedLeases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &describedLease{d.LeasesGetter.Leases(namespace), d.shard}
}

type describedLease struct {
	coordinationv1client.LeaseInterface
	shard *Shard
}

// Create implements coordinationv1client.LeaseInterface.
func (d *describedLease) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return d.LeaseInterface.Create(ctx, d.described(lease), options)
}

// Update implements coordinationv1client.LeaseInterface.
func (d *describedLease) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return d.LeaseInterface.Update(ctx, d.described(lease), options)
}

// described is the Lease with what the leader works on. Without that, as when a kind is not known, the election works as well.
func (d *describedLease) described(lease *coordinationv1.Lease) *coordinationv1.Lease {
	if d.shard.options.Mode != ModeLead {
		return lease
	}
	resources, err := d.shard.resources()
	if err != nil || len(resources) == 0 {
		return lease
	}
	content, err := json.Marshal(resources)
	if err != nil {
		return lease
	}
	lease = lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardingv1alpha1.AnnotationResources, string(content))
	return lease
}
