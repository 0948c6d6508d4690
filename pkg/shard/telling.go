package shard

import (
	"context"
	"encoding/json"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// telling makes the Lease of an election tell what the leader works on, where it works on everything. It is for
// people, and takes no write of its own.
func (s *Shard) telling(leases coordinationv1client.LeasesGetter) coordinationv1client.LeasesGetter {
	if s.options.Mode != ModeLead {
		return leases
	}
	return &tellingLeases{leases, s}
}

type tellingLeases struct {
	coordinationv1client.LeasesGetter
	shard *Shard
}

// Leases implements coordinationv1client.LeasesGetter.
func (t *tellingLeases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &tellingLease{t.LeasesGetter.Leases(namespace), t.shard}
}

type tellingLease struct {
	coordinationv1client.LeaseInterface
	shard *Shard
}

// Create implements coordinationv1client.LeaseInterface.
func (t *tellingLease) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return t.LeaseInterface.Create(ctx, t.told(lease), options)
}

// Update implements coordinationv1client.LeaseInterface.
func (t *tellingLease) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return t.LeaseInterface.Update(ctx, t.told(lease), options)
}

// told is the Lease with what the leader works on. Without that, as when a kind is not known, it is as good to who
// wants to lead.
func (t *tellingLease) told(lease *coordinationv1.Lease) *coordinationv1.Lease {
	resources, err := t.shard.resources()
	if err != nil || len(resources) == 0 {
		return lease
	}
	described, err := json.Marshal(resources)
	if err != nil {
		return lease
	}
	lease = lease.DeepCopy()
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[shardingv1alpha1.AnnotationResources] = string(described)
	return lease
}
