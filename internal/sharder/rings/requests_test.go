package rings_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// intercept puts functions between the reconciler and the API server.
func (f *fixture) intercept(funcs interceptor.Funcs) {
	f.t.Helper()
	direct, err := client.NewWithWatch(f.Rig.Config, client.Options{})
	f.Expect(err).NotTo(HaveOccurred())
	f.Reconciler.Client = interceptor.NewClient(direct, funcs)
}

// reviews counts the reviews of permissions, which are denied for resources in refused.
func (f *fixture) reviews(refused map[string]bool) *int {
	f.t.Helper()
	count := 0
	f.intercept(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		review, ok := object.(*authorizationv1.SelfSubjectAccessReview)
		if !ok {
			return c.Create(ctx, object, options...)
		}
		count++
		review.Status.Allowed = !refused[review.Spec.ResourceAttributes.Resource]
		return nil
	}})
	return &count
}

// TestPermissionsAreReviewedSeldom counts the reviews: two for each resource, three for the webhook configuration and two
// for Leases.
func TestPermissionsAreReviewedSeldom(t *testing.T) {
	f := setUp(t)
	refused := map[string]bool{}
	count := f.reviews(refused)
	asks := func(why string, want int) {
		t.Helper()
		before := *count
		f.reconcile()
		f.Expect(*count-before).To(Equal(want), why)
	}
	asks("the ring is new", 7)
	for shards := range 20 {
		f.Shards = func(string) []members.Shard { return make([]members.Shard, shards) }
		asks("the members have changed", 0)
	}
	f.progress.Err = fmt.Errorf("listing: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "examples"}, "", errors.New("no")))
	asks("just after the last answer", 0)
	f.clock.Step(5 * time.Second)
	asks("a request was forbidden", 7)
	f.progress.Err = nil
	f.clock.Step(9 * time.Minute)
	asks("the answer is good for longer", 0)
	f.clock.Step(time.Minute)
	asks("the answer is old", 7)

	f.Expect(f.Rig.Client.Get(t.Context(), client.ObjectKeyFromObject(f.ring), f.ring)).To(Succeed())
	second := f.main()
	second.Resource = "others"
	f.ring.Spec.Resources = append(f.ring.Spec.Resources, shardingv1alpha1.RingResource{GroupResource: second})
	f.Expect(f.Rig.Client.Update(t.Context(), f.ring)).To(Succeed())
	refused["others"] = true
	asks("the spec has changed", 9)
	f.Expect(f.reason(shardingv1alpha1.ConditionReady)).To(Equal(shardingv1alpha1.ReasonMissingPermission))

	f.Expect(f.Rig.Client.Delete(t.Context(), f.ring)).To(Succeed())
	asks("the ring is gone", 0)
	f.declare()
	asks("the next ring of that name", 7)
}

// TestNoWebhookForRefusedResources shows that users do not wait for a webhook that cannot assign their objects.
func TestNoWebhookForRefusedResources(t *testing.T) {
	f := setUp(t)
	refused := map[string]bool{}
	f.reviews(refused)
	f.reconcile()
	_, err := f.webhook()
	f.Expect(err).NotTo(HaveOccurred())

	t.Log("The role is removed")
	refused["examples"] = true
	f.clock.Step(11 * time.Minute)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.ring)}
	result, err := f.Reconcile(t.Context(), request)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(result.RequeueAfter).To(Equal(5 * time.Second))
	_, err = f.webhook()
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	f.Expect(f.reason(shardingv1alpha1.ConditionReady)).To(Equal(shardingv1alpha1.ReasonMissingPermission))

	t.Log("The role is granted again")
	delete(refused, "examples")
	f.clock.Step(result.RequeueAfter)
	f.reconcile()
	_, err = f.webhook()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.reason(shardingv1alpha1.ConditionReady)).To(Equal(shardingv1alpha1.ReasonReady))
}

// TestStatusConflictIsRetried has an outdated cache: the write of the status fails once, and no event follows.
func TestStatusConflictIsRetried(t *testing.T) {
	f := setUp(t)
	conflicts := 1
	f.intercept(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		if conflicts > 0 {
			conflicts--
			return apierrors.NewConflict(schema.GroupResource{Resource: "controllerrings"}, object.GetName(), errors.New("it has changed"))
		}
		return c.SubResource(name).Patch(ctx, object, patch, options...)
	}})
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.ring)}
	result, err := f.Reconcile(t.Context(), request)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", 2*time.Second)), "it is tried again")
	f.Expect(f.events.Events).To(BeEmpty(), "nothing was written")
	f.reconcile()
	f.Expect(f.reason(shardingv1alpha1.ConditionReady)).To(Equal(shardingv1alpha1.ReasonReady))
}

// TestRingsOnOneMainResource shows the condition of a ring come and go with the other ring.
func TestRingsOnOneMainResource(t *testing.T) {
	f := setUp(t)
	f.reconcile()
	shown := func() *metav1.Condition {
		f.reconcile()
		f.Expect(f.Rig.Client.Get(t.Context(), client.ObjectKeyFromObject(f.ring), f.ring)).To(Succeed())
		return meta.FindStatusCondition(f.ring.Status.Conditions, shardingv1alpha1.ConditionExclusive)
	}
	f.Expect(shown()).To(BeNil())
	other := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace + "-other"}, Spec: f.ring.Spec}
	f.Expect(f.Rig.Client.Create(t.Context(), other)).To(Succeed())
	condition := shown()
	f.Expect(condition.Status).To(Equal(metav1.ConditionFalse))
	f.Expect(condition.Reason).To(Equal(shardingv1alpha1.ReasonSharedResource))
	f.Expect(condition.Message).To(ContainSubstring("examples." + f.main().Group + " (ring " + other.Name + ")"))
	f.Expect(f.reason(shardingv1alpha1.ConditionReady)).To(Equal(shardingv1alpha1.ReasonReady))
	f.Expect(f.Rig.Client.Delete(t.Context(), other)).To(Succeed())
	f.Expect(shown()).To(BeNil())
}

// TestLargestRing has as many resources as the schema allows, with long names. The API server compiles its condition.
func TestLargestRing(t *testing.T) {
	f := setUp(t)
	f.reviews(nil)
	f.Learn = func(_ context.Context, ring *shardingv1alpha1.ControllerRing) (*catalog.Ring, error) {
		known := &catalog.Ring{Name: ring.Name}
		resource := func(name string, controllers ...catalog.Kind) catalog.Kind {
			kind := catalog.Kind{GroupKind: schema.GroupKind{Group: "quite-a-long-group-name.example.com", Kind: name}}
			known.Resources = append(known.Resources, catalog.Resource{
				Resource: schema.GroupVersionResource{Group: kind.Group, Version: "v1", Resource: name}, Kind: kind, Controllers: controllers,
			})
			return kind
		}
		for i := range 32 {
			main := resource(fmt.Sprintf("maincustomresource%d", i))
			for j := range 32 {
				resource(fmt.Sprintf("controlledcustomresource%dof%d", j, i), main)
			}
		}
		return known, nil
	}
	f.reconcile()
	f.Expect(f.reason(shardingv1alpha1.ConditionReady)).To(Equal(shardingv1alpha1.ReasonReady))
	found, err := f.webhook()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(found.Webhooks[0].Rules).To(HaveLen(32 * 33))
	t.Logf("the condition has %d characters", len(found.Webhooks[0].MatchConditions[0].Expression))
}
