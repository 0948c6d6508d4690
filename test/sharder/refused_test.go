package sharder_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// refuseUpdates creates a policy that refuses all updates of some objects in the test's namespace, and returns a function
// that deletes it.
func (f *fixture) refuseUpdates(names ...string) (lift func()) {
	f.t.Helper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: f.Namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.Namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
					},
					ResourceNames: append(names, "probe"),
				}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "a policy refuses it"}},
		},
	}
	f.Expect(f.Client.Create(f.t.Context(), policy)).To(Succeed())
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: f.Namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	f.Expect(f.Client.Create(f.t.Context(), binding)).To(Succeed())
	lift = func() {
		_ = f.Client.Delete(context.Background(), binding)
		_ = f.Client.Delete(context.Background(), policy)
	}
	f.t.Cleanup(lift)
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "probe"}}
	f.Expect(f.Client.Create(f.t.Context(), probe)).To(Succeed())
	f.Eventually(func() error { // until the API server has observed the policy
		change := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"now":"`+time.Now().String()+`"}}`))
		return f.Client.Patch(context.Background(), probe, change)
	}).ShouldNot(Succeed())
	return lift
}

// assigned returns the condition Assigned of the ring.
func (f *fixture) assigned() metav1.Condition {
	declared := &shardingv1alpha1.ControllerRing{}
	f.Expect(f.Client.Get(context.Background(), client.ObjectKeyFromObject(f.ring), declared)).To(Succeed())
	if found := meta.FindStatusCondition(declared.Status.Conditions, shardingv1alpha1.ConditionAssigned); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// TestConditionFollowsRefusedObject has a policy refuse to update an object of a dead shard. The condition names it, and the
// other objects are moved. When the policy is deleted, the object is moved and the condition is true.
func TestConditionFollowsRefusedObject(t *testing.T) {
	f := setUp(t)
	f.start("sharder-0", ringRole)
	dying := f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionAssigned, shardingv1alpha1.ReasonAssigned)
	n := 10
	f.create(0, n)
	f.ownedBy(n, "a")
	lift := f.refuseUpdates("object-0")
	n++ // the probe
	f.join("b", 0)
	dying.stopRenewing()
	f.Eventually(func() string { return f.assigned().Message }).Should(And(
		ContainSubstring(f.Namespace+"/object-0"), ContainSubstring("a policy refuses it")))
	f.Eventually(func() map[string]int { return f.owners() }).Should(HaveKeyWithValue("b", n-2), "all but the refused one and the probe")

	lift()
	f.ownedBy(n, "b")
	const seconds = 10 * time.Second
	f.Eventually(func() string { return f.assigned().Reason }, seconds).Should(Equal(shardingv1alpha1.ReasonAssigned))
}
