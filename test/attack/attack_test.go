package attack_test

import (
	"context"
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/policies"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// attempt is an attack on a ring.
type attempt struct {
	// control is the policy that refuses it.
	control policies.Rule
	// try makes the attempt, and returns the answer of the API server.
	try func(ctx context.Context, f *fixture) error
	// says is a part of the refusal.
	says string
}

// attempts are all attacks that policies stop. Each makes its own objects.
var attempts = map[string]attempt{
	// A tenant may do everything with the objects in its namespace, and with Leases.
	"a tenant steers an object to another shard": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.user.Patch(ctx, f.deployment(f.tenant, "pod-a"), label(f.shardLabel(), "pod-b"))
	}, "only the owner of an object and the sharder"},
	"a tenant starves an object": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.user.Patch(ctx, f.deployment(f.tenant, "pod-a"), label(f.shardLabel(), "nobody"))
	}, "only the owner of an object and the sharder"},
	"a tenant takes an object from its shard": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.user.Patch(ctx, f.deployment(f.tenant, "pod-a"), label(f.shardLabel(), ""))
	}, "only the owner of an object and the sharder"},
	"a tenant drains an object": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.user.Patch(ctx, f.deployment(f.tenant, "pod-a"), label(f.drainLabel(), "pod-b"))
	}, "only the owner of an object and the sharder"},
	"a tenant drains an object that nobody owns": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.user.Patch(ctx, f.deployment(f.tenant, ""), label(f.drainLabel(), "pod-b"))
	}, "only the owner of an object and the sharder"},
	"a tenant steers a child": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.user.Patch(ctx, f.child(f.tenant, "pod-a"), label(f.shardLabel(), "pod-b"))
	}, "only the owner of an object and the sharder"},
	"a tenant replaces an object without its labels": {policies.Labels, func(ctx context.Context, f *fixture) error {
		object := f.child(f.tenant, "pod-a")
		object.Labels = nil
		return f.user.Update(ctx, object)
	}, "only the owner of an object and the sharder"},
	"a tenant creates an object of a shard in a namespace that the ring does not select": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.user.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.unselected, GenerateName: "bait-", Labels: map[string]string{f.shardLabel(): "pod-a"},
		}})
	}, "does not select this namespace"},
	"a tenant labels an object in a namespace that the ring does not select": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.user.Patch(ctx, f.child(f.unselected, ""), label(f.shardLabel(), "pod-a"))
	}, "does not select this namespace"},
	"a tenant joins the ring": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.user.Create(ctx, f.lease(f.tenant, "user"))
	}, "may write this lease, not system:serviceaccount:"},
	"a tenant makes its Lease one of the ring": {policies.Membership, func(ctx context.Context, f *fixture) error {
		lease := f.lease(f.tenant, "mine")
		lease.Labels = nil
		if err := f.user.Create(ctx, lease); err != nil {
			return err
		}
		return f.user.Patch(ctx, lease, label(shardingv1alpha1.LabelControllerRing, f.ring.Name))
	}, "may write this lease"},
	"a tenant pretends to be a sharder": {policies.Sharder, func(ctx context.Context, f *fixture) error {
		lease := f.lease(f.tenant, "sharder")
		lease.Labels = map[string]string{shardingv1alpha1.LabelSharder: f.ring.Name}
		return f.user.Create(ctx, lease)
	}, "only shards of the ring"},

	// Other pods with permissions for Leases.
	"a shard of the same account name in a foreign namespace joins": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.foreignShard.Create(ctx, f.lease(f.foreign, "pod-f"))
	}, "may write this lease, not pod-f"},
	"a shard from a foreign namespace joins in the namespace of the shards": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.foreignShard.Create(ctx, f.lease(f.system, "pod-f"))
	}, "may write this lease, not pod-f"},
	"a pod of another account joins": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.unlisted.Create(ctx, f.lease(f.system, "pod-s"))
	}, "may write this lease, not pod-s"},
	"a pod of another account removes a shard": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.unlisted.Delete(ctx, f.become("pod-a", f.a))
	}, "may write this lease, not pod-s"},
	"the holder of a token of the account joins": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.unbound.Create(ctx, f.lease(f.system, "pod-u"))
	}, "may write this lease"},

	// A compromised shard, or one that hangs and wakes up: it has all permissions of its operator.
	"a shard updates an object of another one": {policies.Fence, func(ctx context.Context, f *fixture) error {
		return f.b.Patch(ctx, f.deployment(f.tenant, "pod-a"), merge(`{"spec":{"replicas":1}}`))
	}, "fenced: the object is owned by pod-a, not by pod-b"},
	"a shard replaces an object of another one": {policies.Fence, func(ctx context.Context, f *fixture) error {
		object := f.child(f.tenant, "pod-a")
		object.Data = map[string]string{"stolen": "true"}
		return f.b.Update(ctx, object)
	}, "fenced: the object is owned by pod-a, not by pod-b"},
	"a shard applies an object of another one": {policies.Fence, func(ctx context.Context, f *fixture) error {
		object := f.deployment(f.tenant, "pod-a")
		return f.b.Apply(ctx, appsv1ac.Deployment(object.Name, object.Namespace).WithSpec(appsv1ac.DeploymentSpec().WithReplicas(1)),
			client.FieldOwner("zombie"), client.ForceOwnership)
	}, "fenced: the object is owned by pod-a, not by pod-b"},
	"a shard updates the status of an object of another one": {policies.Fence, func(ctx context.Context, f *fixture) error {
		return f.b.Status().Patch(ctx, f.deployment(f.tenant, "pod-a"), merge(`{"status":{"observedGeneration":7}}`))
	}, "fenced: the object is owned by pod-a, not by pod-b"},
	"a shard annotates an object of another one": {policies.Fence, func(ctx context.Context, f *fixture) error {
		return f.b.Patch(ctx, f.deployment(f.tenant, "pod-a"), merge(`{"metadata":{"annotations":{"a":"b"}}}`))
	}, "fenced: the object is owned by pod-a, not by pod-b"},
	"a shard changes another label of an object of another one": {policies.Fence, func(ctx context.Context, f *fixture) error {
		return f.b.Patch(ctx, f.deployment(f.tenant, "pod-a"), label("app", "y"))
	}, "fenced: the object is owned by pod-a, not by pod-b"},
	"a shard removes a label of an object of another one": {policies.Fence, func(ctx context.Context, f *fixture) error {
		object := f.deployment(f.tenant, "pod-a")
		f.Expect(f.Client.Patch(ctx, object, label("app", "y"))).To(Succeed())
		return f.b.Patch(ctx, object, label("app", ""))
	}, "fenced: the object is owned by pod-a, not by pod-b"},
	"a shard deletes an object of another one": {policies.Fence, func(ctx context.Context, f *fixture) error {
		return f.b.Delete(ctx, f.deployment(f.tenant, "pod-a"))
	}, "fenced: the object is owned by pod-a, not by pod-b"},
	"a shard deletes all objects of a namespace": {policies.Fence, func(ctx context.Context, f *fixture) error {
		object := f.child(f.tenant, "pod-a")
		return f.b.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(f.tenant), client.MatchingFields{"metadata.name": object.Name})
	}, "fenced: the object is owned by pod-a, not by pod-b"},
	"a former owner writes right after its object has moved": {policies.Fence, func(ctx context.Context, f *fixture) error {
		object := f.child(f.tenant, "pod-a")
		f.Expect(f.a.Patch(ctx, object, merge(`{"data":{"a":"b"}}`))).To(Succeed())
		f.Expect(f.sharder.Patch(ctx, object, label(f.shardLabel(), "pod-b"))).To(Succeed())
		return f.a.Patch(ctx, object, merge(`{"data":{"a":"c"}}`))
	}, "fenced: the object is owned by pod-b, not by pod-a"},
	"a process with a token of the account that is not bound to a pod writes": {policies.Fence, func(ctx context.Context, f *fixture) error {
		return f.unbound.Patch(ctx, f.child(f.tenant, "pod-a"), merge(`{"data":{"a":"b"}}`))
	}, "whose token is not bound to a pod"},
	"a shard scales an object of another one": {policies.Scale, func(ctx context.Context, f *fixture) error {
		object := f.deployment(f.tenant, "pod-a")
		return f.b.SubResource("scale").Update(ctx, object, client.WithSubResourceBody(&autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: 1},
		}))
	}, "the subresource scale does not show the owner"},
	"a shard steals an object": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.b.Patch(ctx, f.deployment(f.tenant, "pod-a"), label(f.shardLabel(), "pod-b"))
	}, "only the owner of an object and the sharder"},
	"a shard drains an object of another one": {policies.Labels, func(ctx context.Context, f *fixture) error {
		return f.b.Patch(ctx, f.deployment(f.tenant, "pod-a"), label(f.drainLabel(), "pod-b"))
	}, "only the owner of an object and the sharder"},
	"a shard takes over the Lease of another one": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.b.Patch(ctx, f.become("pod-a", f.a), merge(`{"spec":{"holderIdentity":"pod-b"}}`))
	}, "only the pod pod-a"},
	"a shard releases the Lease of another one": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.b.Patch(ctx, f.become("pod-a", f.a), merge(`{"spec":{"holderIdentity":""}}`))
	}, "only the pod pod-a"},
	"a shard takes another one out of the ring": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.b.Patch(ctx, f.become("pod-a", f.a), label(shardingv1alpha1.LabelControllerRing, "other"))
	}, "only the pod pod-a"},
	"a shard deletes the Lease of another one": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.b.Delete(ctx, f.become("pod-a", f.a))
	}, "only the pod pod-a"},
	"a shard invents another one": {policies.Membership, func(ctx context.Context, f *fixture) error {
		return f.b.Create(ctx, f.lease(f.system, "pod-x"))
	}, "only the pod pod-x"},
}

// TestAttemptsAreRefused makes all attempts on a ring with its policies. They change nothing.
func TestAttemptsAreRefused(t *testing.T) {
	f := setUp(t)
	f.protect(f.options())
	f.eachRefused(t, attempts)
}

// TestAttemptsSucceedWithoutTheirControl makes the same attempts without the policy that refuses them.
func TestAttemptsSucceedWithoutTheirControl(t *testing.T) {
	for _, control := range []policies.Rule{policies.Membership, policies.Sharder, policies.Labels, policies.Fence, policies.Scale} {
		t.Run(string(control), func(t *testing.T) {
			f := setUp(t)
			f.protect(f.options(), control)
			f.eachAccepted(t, attempts, control)
		})
	}
}

// eachRefused makes all attempts, each of which must be refused by its control.
func (f *fixture) eachRefused(t *testing.T, all map[string]attempt) {
	t.Helper()
	f.each(t, all, func(g *WithT, tried attempt, err error) {
		g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		g.Expect(err).To(MatchError(ContainSubstring(tried.says)))
		g.Expect(err).To(MatchError(ContainSubstring("'" + policies.Name(f.ring.Name, tried.control) + "'")))
	})
}

// eachAccepted makes the attempts that a control refuses, without the control.
func (f *fixture) eachAccepted(t *testing.T, all map[string]attempt, control policies.Rule) {
	t.Helper()
	refused := maps.Clone(all)
	maps.DeleteFunc(refused, func(_ string, a attempt) bool { return a.control != control })
	if len(refused) == 0 {
		t.Errorf("no attempt is refused by the policy %s", control)
	}
	f.each(t, refused, func(g *WithT, _ attempt, err error) { g.Expect(err).NotTo(HaveOccurred()) })
}

// each makes attempts one after the other.
func (f *fixture) each(t *testing.T, all map[string]attempt, check func(*WithT, attempt, error)) {
	t.Helper()
	for name, tried := range all {
		t.Run(name, func(t *testing.T) {
			f.t, f.WithT = t, NewWithT(t)
			f.SetDefaultEventuallyTimeout(rig.Timeout)
			err := tried.try(t.Context(), f)
			check(f.WithT, tried, err)
			// Attempts on the Lease of a shard need one.
			f.Expect(client.IgnoreNotFound(f.Client.Delete(context.Background(), f.lease(f.system, "pod-a")))).To(Succeed())
		})
	}
}

// TestRingsOfTheClusterItselfAreRefused declares rings that would make the sharder intercept what controls the cluster.
func TestRingsOfTheClusterItselfAreRefused(t *testing.T) {
	f := setUp(t)
	for name, resource := range map[string]shardingv1alpha1.GroupResource{
		"all resources of a group": {Group: "apps", Resource: "*"},
		"all groups":               {Group: "*", Resource: "deployments"},
		"subresources":             {Group: "apps", Resource: "deployments/status"},
		"Leases":                   {Group: "coordination.k8s.io", Resource: "leases"},
		"webhooks":                 {Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
		"policies":                 {Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
		"roles":                    {Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		"access reviews":           {Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
		"tokens":                   {Group: "authentication.k8s.io", Resource: "tokenreviews"},
		"definitions":              {Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		"API services":             {Group: "apiregistration.k8s.io", Resource: "apiservices"},
		"nodes":                    {Resource: "nodes"},
		"rings":                    {Group: "sharding.timebertt.dev", Resource: "controllerrings"},
		"an invalid group":         {Group: "Apps", Resource: "deployments"},
	} {
		for where, spec := range map[string]shardingv1alpha1.RingResource{
			"main":       {GroupResource: resource},
			"controlled": {GroupResource: shardingv1alpha1.GroupResource{Resource: "configmaps"}, ControlledResources: []shardingv1alpha1.GroupResource{resource}},
		} {
			t.Run(name+"/"+where, func(t *testing.T) {
				ring := f.ring.DeepCopy()
				ring.ObjectMeta = metav1.ObjectMeta{Name: "intercept"}
				ring.Spec.Resources = []shardingv1alpha1.RingResource{spec}
				if err := f.Client.Create(t.Context(), ring, client.DryRunAll); !apierrors.IsInvalid(err) {
					t.Errorf("the answer is %v", err)
				}
			})
		}
	}
}

// TestNormalOperationIsNotRefused does with the policies what owners, users, the sharder and the control plane do.
func TestNormalOperationIsNotRefused(t *testing.T) {
	f := setUp(t)
	f.protect(f.options())
	ctx := t.Context()
	main, child := f.deployment(f.tenant, "pod-a"), f.child(f.tenant, "pod-a")
	lease := f.become("pod-a", f.a)
	for name, err := range map[string]error{
		"the owner updates its object":      f.a.Patch(ctx, main, merge(`{"spec":{"replicas":1},"metadata":{"annotations":{"a":"b"}}}`)),
		"the owner updates the status":      f.a.Status().Patch(ctx, main, merge(`{"status":{"observedGeneration":7}}`)),
		"the owner updates a child":         f.a.Patch(ctx, child, merge(`{"data":{"a":"b"}}`)),
		"a user updates an object":          f.user.Patch(ctx, main, merge(`{"spec":{"replicas":0},"metadata":{"labels":{"app":"y"}}}`)),
		"a shard updates unsharded objects": f.b.Patch(ctx, f.child(f.unselected, ""), merge(`{"data":{"a":"b"}}`)),
		"a shard deletes unsharded objects": f.b.Delete(ctx, f.child(f.tenant, "")),
		"a shard claims a child":            f.b.Patch(ctx, f.child(f.tenant, ""), label(f.shardLabel(), "pod-b")),
		"the webhook assigns in a write":    f.user.Patch(ctx, f.child(f.tenant, ""), label(f.shardLabel(), "pod-b")),
		"a user creates":                    f.user.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.tenant, GenerateName: "new-", Labels: map[string]string{f.shardLabel(): "pod-a"}}}),
		"the sharder drains an object":      f.sharder.Patch(ctx, main, label(f.drainLabel(), "pod-b")),
		"the owner hands a child over":      f.a.Patch(ctx, child, label(f.shardLabel(), "pod-b")),
		"the sharder moves a child back":    f.sharder.Patch(ctx, child, label(f.shardLabel(), "pod-a")),
		"a shard renews its Lease":          f.a.Patch(ctx, lease, merge(`{"spec":{"leaseTransitions":1}}`)),
		"the sharder shows a state":         f.sharder.Patch(ctx, lease, label(shardingv1alpha1.LabelState, "ready")),
		"the sharder takes a Lease over":    f.sharder.Patch(ctx, lease, merge(`{"spec":{"holderIdentity":"shardlease-controller"}}`)),
		"a shard takes its Lease back":      f.a.Patch(ctx, lease, merge(`{"spec":{"holderIdentity":"pod-a"}}`)),
		"the sharder deletes a Lease":       f.sharder.Delete(ctx, lease),
		"an administrator makes a Lease":    f.Client.Create(ctx, f.lease(f.system, "anything")),
		"an administrator relabels":         f.Client.Patch(ctx, f.child(f.tenant, "pod-a"), label(f.shardLabel(), "")),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	release := merge(`{"metadata":{"labels":{"` + f.shardLabel() + `":"pod-b","` + f.drainLabel() + `":null}}}`)
	f.Expect(f.a.Patch(ctx, f.drained(ctx), release)).To(Succeed(), "the owner releases its object")

	owned := f.child(f.tenant, "pod-b")
	f.Expect(f.Client.Patch(ctx, owned, merge(`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"`+
		main.Name+`","uid":"`+string(main.UID)+`","controller":true}]}}`))).To(Succeed())
	f.Expect(f.user.Delete(ctx, main)).To(Succeed())
	f.Eventually(func() bool {
		return apierrors.IsNotFound(f.Client.Get(ctx, client.ObjectKeyFromObject(owned), owned))
	}).Should(BeTrue(), "the garbage collector deletes children")
	f.Expect(f.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.system}})).To(Succeed())
	f.Eventually(func() bool {
		return apierrors.IsNotFound(f.Client.Get(ctx, client.ObjectKey{Namespace: f.system, Name: "anything"}, f.lease(f.system, "anything")))
	}).Should(BeTrue(), "the Leases of a deleted namespace are deleted")
}

// drained returns an object that is being drained.
func (f *fixture) drained(ctx context.Context) *appsv1.Deployment {
	f.t.Helper()
	object := f.deployment(f.tenant, "pod-a")
	f.Expect(f.sharder.Patch(ctx, object, label(f.drainLabel(), "pod-b"))).To(Succeed())
	return object
}
