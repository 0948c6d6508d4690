package rings_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/policies"
)

// TestFencedCondition applies the policies of a ring one by one, changes them, and removes one.
func TestFencedCondition(t *testing.T) {
	f := setUp(t)
	next := func(reason string, why string) {
		t.Helper()
		f.clock.Step(15 * time.Minute)
		f.reconcile()
		f.Expect(f.reason(shardingv1alpha1.ConditionFenced)).To(Equal(reason), why)
	}
	next("NoServiceAccounts", "the shards cannot be told from strangers")
	f.ring.Spec.ShardNamespaces = nil
	f.Expect(f.Rig.Client.Update(t.Context(), f.ring)).To(Succeed())
	next("OpenRing", "shards may join from anywhere")
	f.ring.Spec.Shards = &shardingv1alpha1.RingShards{ServiceAccounts: []shardingv1alpha1.ServiceAccount{{Namespace: f.Namespace, Name: "operator"}}}
	f.Expect(f.Rig.Client.Update(t.Context(), f.ring)).To(Succeed())
	next("PolicyMissing", "no policy was applied")

	objects, err := policies.ForRing(f.ring, policies.Options{Sharder: f.self()})
	f.Expect(err).NotTo(HaveOccurred())
	for i, object := range objects {
		if i > 0 && i < len(objects)-2 { // the last ones are those of scale, without which shards may write scales
			next("PolicyMissing", "a policy or binding is missing")
		}
		f.Expect(f.Rig.Client.Create(t.Context(), object.(client.Object))).To(Succeed())
		t.Cleanup(func() { _ = f.Rig.Client.Delete(context.WithoutCancel(t.Context()), object.(client.Object)) })
	}
	next("Fenced", "all policies are in force")

	fence := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: policies.Name(f.ring.Name, policies.Fence)}}
	f.Expect(f.Rig.Client.Get(t.Context(), client.ObjectKeyFromObject(fence), fence)).To(Succeed())
	unchanged := fence.DeepCopy()
	fence.Spec.Validations[0].Expression = "true"
	f.Expect(f.Rig.Client.Update(t.Context(), fence)).To(Succeed())
	next("PolicyDiffers", "a policy has another rule")
	fence.Spec = unchanged.Spec
	f.Expect(f.Rig.Client.Update(t.Context(), fence)).To(Succeed())
	next("Fenced", "it has its rule again")

	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: fence.Name}}
	f.Expect(f.Rig.Client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding)).To(Succeed())
	binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
	f.Expect(f.Rig.Client.Update(t.Context(), binding)).To(Succeed())
	next("AuditOnly", "a policy only warns")
}

// self is the ServiceAccount that the reconciler of the test takes itself for.
func (f *fixture) self() types.NamespacedName {
	f.t.Helper()
	review := &authenticationv1.SelfSubjectReview{}
	f.Expect(f.Rig.Client.Create(f.t.Context(), review)).To(Succeed())
	return types.NamespacedName{Namespace: review.Status.UserInfo.Username}
}
