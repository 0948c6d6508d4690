package leases_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// outdatedClient is a client whose cache has an earlier version of a Lease.
type outdatedClient struct {
	client.Client
	cached *coordinationv1.Lease
}

func (o *outdatedClient) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o.cached.DeepCopyInto(into.(*coordinationv1.Lease))
	return nil
}

// TestRenewalPreventsTakeOver has a shard renew at the moment in which the sharder takes its Lease over.
func TestRenewalPreventsTakeOver(t *testing.T) {
	f := setUp(t)
	lease := f.lease("a")
	f.expect(lease, "ready", "Normal ShardReady")
	f.clock.Step(21 * time.Second)
	f.renew(lease.DeepCopy()) // the sharder does not know yet
	f.Reconciler.Client = &outdatedClient{f.Rig.Client, lease.DeepCopy()}
	_, err := f.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(lease)})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.get(lease)).To(Succeed())
	f.Expect(*lease.Spec.HolderIdentity).To(Equal("a"), "the shard renewed in time and is not a member any more")
	current, _ := f.tracker.Ring(f.Namespace)
	f.Expect(current.Has("a")).To(BeTrue(), "the shard renewed in time and is not a member any more")
	f.Reconciler.Client = f.Rig.Client
	f.expect(lease, "ready")
}
