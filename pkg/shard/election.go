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
	"github.com/ringmaster-project/ringmaster/internal/sharder/inprocess"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/membership"
)

// election is the leader election of the manager.
type election struct {
	*membership.Candidate
	lock            *resourcelock.LeaseLock // nil if the user has set another one
	namespace, name string
}

// configureElection prepares the manager's election, if the mode needs one. It keeps the names and
// times that the user has set.
func (s *Shard) configureElection(options *manager.Options) error {
	mode := s.options.Mode
	if mode == ModeAlone {
		options.LeaderElection = false
	}
	labels := s.electionLabels(options.LeaderElectionLabels)
	if options.LeaderElection {
		options.LeaderElectionLabels = labels
	}
	if !mode.needsElection() {
		return nil
	}
	name := s.Ring() + "-leader"
	if mode.canBeSharder() {
		name = s.Ring() + "-sharder"
	}
	options.LeaderElection = true
	options.LeaderElectionID = cmp.Or(options.LeaderElectionID, name)
	options.LeaderElectionNamespace = cmp.Or(options.LeaderElectionNamespace, s.options.Namespace)
	options.LeaseDuration = cmp.Or(options.LeaseDuration, &s.options.LeaseDuration)
	options.RenewDeadline = cmp.Or(options.RenewDeadline, &s.options.RenewDeadline)
	options.RetryPeriod = cmp.Or(options.RetryPeriod, &s.options.RetryPeriod)
	// The next leader can start at once, because the process ends with its manager. The Lease is not
	// released while work is still running.
	options.LeaderElectionReleaseOnCancel = true
	if mode == ModeLead && options.Controller.EnableWarmup == nil {
		options.Controller.EnableWarmup = new(true)
	}
	e := &election{namespace: options.LeaderElectionNamespace, name: options.LeaderElectionID}
	lock := options.LeaderElectionResourceLockInterface
	if lock == nil {
		var err error
		if e.lock, err = s.electionLock(options, labels); err != nil {
			return err
		}
		lock = e.lock
	}
	e.Candidate = membership.NewCandidate(membership.Times{
		LeaseDuration: *options.LeaseDuration, RenewDeadline: *options.RenewDeadline, RetryPeriod: *options.RetryPeriod,
	}, lock)
	s.election = e
	options.LeaderElectionResourceLockInterface = e
	return nil
}

// electionLabels returns the labels that show the role of the leader in the ring. A label of a role
// in another mode is emptied, because labels stay on a Lease.
func (s *Shard) electionLabels(others map[string]string) map[string]string {
	labels := map[string]string{shardingv1alpha1.LabelSharder: "", shardingv1alpha1.LabelLeader: ""}
	switch mode := s.options.Mode; {
	case mode.canBeSharder():
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

// electionLock returns the lock of the election, on the cluster that the user has set for it.
func (s *Shard) electionLock(options *manager.Options, labels map[string]string) (*resourcelock.LeaseLock, error) {
	config := s.config
	if options.LeaderElectionConfig != nil {
		config = rest.CopyConfig(options.LeaderElectionConfig)
		config.QPS, config.RateLimiter = -1, nil
	}
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the election: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: options.LeaderElectionNamespace, Name: options.LeaderElectionID},
		Client:     &annotatedLeases{leases, s},
		LockConfig: resourcelock.ResourceLockConfig{Identity: s.Name() + "_" + string(uuid.NewUUID())},
		Labels:     labels,
	}, nil
}

// connectElection connects the election to a manager.
func (s *Shard) connectElection(mgr manager.Manager) {
	if s.election == nil {
		return
	}
	if s.election.lock != nil {
		//nolint:staticcheck // leader election has no other way to record its events
		s.election.lock.LockConfig.EventRecorder = mgr.GetEventRecorderFor(s.election.Identity())
	}
	if !s.options.Mode.sharded() {
		s.election.AfterLoss(func() { s.end(ErrLeaseLost) })
	}
}

// addSharder adds the in-process sharder, which runs while the manager leads.
func (s *Shard) addSharder(mgr manager.Manager) error {
	return inprocess.Add(mgr, inprocess.Options{
		Ring:       s.Ring(),
		Namespace:  s.options.Namespace,
		Resources:  s.resources,
		Namespaces: s.options.NamespaceSelector,
		Election: &coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.election.namespace, Name: s.election.name},
		},
		Config: s.config,
	})
}

// remainingAfterLoss is the time between the loss of this process's Lease and its expiry.
func (s *Shard) remainingAfterLoss() time.Duration {
	if s.election != nil && !s.options.Mode.sharded() {
		return s.election.RemainingAfterLoss()
	}
	return s.options.LeaseDuration - s.options.RenewDeadline
}

// annotatedLeases adds an annotation for users to each write of a Lease: the resources that the leader
// reconciles.
type annotatedLeases struct {
	coordinationv1client.LeasesGetter
	shard *Shard
}

// Leases implements coordinationv1client.LeasesGetter.
func (a *annotatedLeases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &annotatedLease{a.LeasesGetter.Leases(namespace), a.shard}
}

type annotatedLease struct {
	coordinationv1client.LeaseInterface
	shard *Shard
}

// Create implements coordinationv1client.LeaseInterface.
func (a *annotatedLease) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return a.LeaseInterface.Create(ctx, a.annotated(lease), options)
}

// Update implements coordinationv1client.LeaseInterface.
func (a *annotatedLease) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return a.LeaseInterface.Update(ctx, a.annotated(lease), options)
}

// annotated returns the Lease with the annotation, or without it if the resources are not known.
func (a *annotatedLease) annotated(lease *coordinationv1.Lease) *coordinationv1.Lease {
	if a.shard.options.Mode != ModeLead {
		return lease
	}
	resources, err := a.shard.resources()
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
