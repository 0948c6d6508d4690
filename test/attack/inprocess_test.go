package attack_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/policies"
)

// inProcessAttempts are attacks on a ring with an in-process sharder. The instance pod-a is elected.
var inProcessAttempts = map[string]attempt{
	"the elected instance updates an object of another shard": {policies.Fence, func(ctx context.Context, f *fixture) error {
		return f.a.Patch(ctx, f.child(f.tenant, "pod-b"), merge(`{"data":{"a":"b"}}`))
	}, "fenced: the object is owned by pod-b, not by pod-a"},
	"the elected instance moves an object and updates it in one write": {policies.Fence, func(ctx context.Context, f *fixture) error {
		return f.a.Patch(ctx, f.child(f.tenant, "pod-b"), merge(`{"data":{"a":"b"},"metadata":{"labels":{"`+f.shardLabel()+`":"pod-a"}}}`))
	}, "fenced: the object is owned by pod-b, not by pod-a"},
	"the elected instance deletes an object of another shard": {policies.Fence, func(ctx context.Context, f *fixture) error {
		return f.a.Delete(ctx, f.child(f.tenant, "pod-b"))
	}, "fenced: the object is owned by pod-b, not by pod-a"},
	"an instance that is not elected moves an object": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.b.Patch(ctx, f.child(f.tenant, "pod-a"), label(f.shardLabel(), "pod-b"))
	}, "only the owner of an object and the sharder"},
	"an instance that is not elected takes over the Lease of another shard": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.b.Patch(ctx, f.become("pod-a", f.a), merge(`{"spec":{"holderIdentity":"shardlease-controller"}}`))
	}, "only the pod pod-a"},
	"an external sharder moves an object": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.sharder.Patch(ctx, f.child(f.tenant, "pod-a"), label(f.shardLabel(), "pod-b"))
	}, "only the owner of an object and the sharder"},
	"a stranger has itself elected": {policies.Election, func(ctx context.Context, f *fixture) error {
		return f.unlisted.Patch(ctx, f.electionLease("pod-a"), merge(`{"spec":{"holderIdentity":"pod-s_1"}}`))
	}, "only shards of the ring"},
	"a shard has another one elected": {policies.Election, func(ctx context.Context, f *fixture) error {
		return f.b.Patch(ctx, f.electionLease("pod-a"), merge(`{"spec":{"holderIdentity":"pod-a_2"}}`))
	}, "only shards of the ring"},
	"a shard deletes all Leases": {policies.Election, func(ctx context.Context, f *fixture) error {
		return f.b.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(f.system), client.MatchingFields{"metadata.name": f.election().Name})
	}, "only shards of the ring"},
	"a shard deletes the election Lease": {policies.Election, func(ctx context.Context, f *fixture) error {
		return f.b.Delete(ctx, f.electionLease("pod-a"))
	}, "only shards of the ring"},
}

func (f *fixture) election() types.NamespacedName {
	return types.NamespacedName{Namespace: f.system, Name: "election"}
}

// electionLease returns the election Lease, held by an instance.
func (f *fixture) electionLease(pod string) *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.system, Name: f.election().Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(pod + "_1"), LeaseDurationSeconds: new(int32(15)), RenewTime: &now},
	}
}

// setUpInProcess makes a ring with its policies, and elects pod-a.
func setUpInProcess(t *testing.T, without ...policies.Rule) *fixture {
	t.Helper()
	f := setUp(t)
	f.Expect(f.a.Create(t.Context(), f.electionLease("pod-a"))).To(Succeed())
	f.protect(policies.Options{Election: f.election()}, without...)
	f.Eventually(func() error {
		return f.a.Patch(t.Context(), f.child(f.tenant, "pod-b"), label(f.shardLabel(), "pod-c"))
	}).Should(Succeed())
	return f
}

// TestInProcessAttemptsAreRefused makes all attempts on a ring with an in-process sharder.
func TestInProcessAttemptsAreRefused(t *testing.T) {
	setUpInProcess(t).eachRefused(t, inProcessAttempts)
}

// TestInProcessAttemptsSucceedWithoutTheirControl makes the same attempts without the policy that refuses them.
func TestInProcessAttemptsSucceedWithoutTheirControl(t *testing.T) {
	for _, control := range []policies.Rule{policies.Fence, policies.Labels, policies.Membership, policies.Election} {
		t.Run(string(control), func(t *testing.T) {
			f := setUpInProcess(t, control)
			// An attempt on the election Lease would change the outcome of others.
			for name, tried := range inProcessAttempts {
				if tried.control == control {
					f.eachAccepted(t, map[string]attempt{name: tried}, control)
					f.Expect(client.IgnoreNotFound(f.Client.Delete(t.Context(), f.electionLease("pod-a")))).To(Succeed())
					f.Expect(f.Client.Create(t.Context(), f.electionLease("pod-a"))).To(Succeed())
				}
			}
		})
	}
}

// TestElectedInstance moves objects and acts on Leases as the in-process sharder does, and no longer when another instance
// is elected.
func TestElectedInstance(t *testing.T) {
	f := setUpInProcess(t)
	ctx := t.Context()
	lease := f.become("pod-b", f.b)
	for name, err := range map[string]error{
		"assigns an object":      f.a.Patch(ctx, f.child(f.tenant, ""), label(f.shardLabel(), "pod-b")),
		"moves an object":        f.a.Patch(ctx, f.child(f.tenant, "pod-b"), label(f.shardLabel(), "pod-a")),
		"drains an object":       f.a.Patch(ctx, f.deployment(f.tenant, "pod-b"), label(f.drainLabel(), "pod-a")),
		"shows the state":        f.a.Patch(ctx, lease, label(shardingv1alpha1.LabelState, "ready")),
		"takes a Lease over":     f.a.Patch(ctx, lease, merge(`{"spec":{"holderIdentity":"shardlease-controller"}}`)),
		"deletes a dead Lease":   f.a.Delete(ctx, lease),
		"renews its election":    f.a.Patch(ctx, f.electionLease("pod-a"), merge(`{"spec":{"leaseTransitions":1}}`)),
		"updates its own object": f.a.Patch(ctx, f.child(f.tenant, "pod-a"), merge(`{"data":{"a":"b"}}`)),
	} {
		if err != nil {
			t.Errorf("the elected instance %s: %v", name, err)
		}
	}
	f.Expect(f.b.Patch(ctx, f.electionLease("pod-a"), merge(`{"spec":{"holderIdentity":"pod-b_1"}}`))).To(Succeed())
	f.Eventually(func() bool {
		return apierrors.IsForbidden(f.a.Patch(ctx, f.child(f.tenant, "pod-b"), label(f.shardLabel(), "pod-a")))
	}).Should(BeTrue(), "the former leader may no longer move objects")
	f.Eventually(func() error {
		return f.b.Patch(ctx, f.child(f.tenant, "pod-a"), label(f.shardLabel(), "pod-b"))
	}).Should(Succeed(), "the next leader may move objects")
}
