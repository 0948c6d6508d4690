package attack_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/policies"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"config/crds"}, ControllerManager: true})
}

// project is the label of the namespaces that a ring selects.
const project = "attack.ringmaster.test/project"

// fixture is a ring with its shards a and b, and those who attack it. The test acts as all of them.
type fixture struct {
	*rig.Rig
	*WithT
	t    *testing.T
	ring *shardingv1alpha1.ControllerRing
	// Namespaces: objects are in tenant, which the ring selects, and in unselected. Shards are in system.
	system, tenant, unselected, foreign string

	// configs are the client configurations of pods, by name.
	configs map[string]*rest.Config

	a, b, unbound, unlisted, foreignShard, sharder, user client.Client
}

// setUp makes a ring without policies.
func setUp(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Rig: rig.Shared(t), WithT: NewWithT(t), t: t, configs: map[string]*rest.Config{}}
	f.SetDefaultEventuallyTimeout(rig.Timeout)
	f.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	f.system = f.Namespace
	f.tenant, f.unselected, f.foreign = f.namespace("tenant", f.system), f.namespace("unselected", ""), f.namespace("foreign", "")
	f.ring = &shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: f.system},
		Spec: shardingv1alpha1.ControllerRingSpec{
			Resources: []shardingv1alpha1.RingResource{{
				GroupResource:       shardingv1alpha1.GroupResource{Group: "apps", Resource: "deployments"},
				ControlledResources: []shardingv1alpha1.GroupResource{{Resource: "configmaps"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{project: f.system}},
			Shards: &shardingv1alpha1.RingShards{ServiceAccounts: []shardingv1alpha1.ServiceAccount{
				{Namespace: f.system, Name: "operator"},
			}},
		},
	}
	f.Expect(f.Client.Create(t.Context(), f.ring)).To(Succeed())
	t.Cleanup(func() { _ = f.Client.Delete(context.Background(), f.ring) })
	f.a, f.b = f.pod(f.system, "operator", "pod-a"), f.pod(f.system, "operator", "pod-b")
	f.unbound = f.account(f.system, "operator")
	f.unlisted = f.pod(f.system, "stranger", "pod-s")
	f.foreignShard = f.pod(f.foreign, "operator", "pod-f")
	f.sharder = f.pod(f.system, "sharder", "sharder-0")
	f.user = f.account(f.tenant, "user")
	f.grant("operator", f.system, "operator", everything("apps", "deployments", "deployments/status", "deployments/scale"), everything("", "configmaps"), everything("coordination.k8s.io", "leases"))
	f.grant("stranger", f.system, "stranger", everything("coordination.k8s.io", "leases"))
	f.grant("foreign", f.foreign, "operator", everything("coordination.k8s.io", "leases"))
	f.grant("sharder", f.system, "sharder", everything("apps", "deployments"), everything("", "configmaps"), everything("coordination.k8s.io", "leases"))
	f.grant("user", f.tenant, "user", everything("apps", "deployments", "deployments/status"), everything("", "configmaps"), everything("coordination.k8s.io", "leases"))
	return f
}

func (f *fixture) namespace(suffix, ofProject string) string {
	f.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace + "-" + suffix, Labels: map[string]string{project: ofProject}}}
	f.Expect(f.Client.Create(f.t.Context(), namespace)).To(Succeed())
	return namespace.Name
}

func everything(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}
}

// grant gives a ServiceAccount permissions in all namespaces: only policies are between it and the objects.
func (f *fixture) grant(name, namespace, account string, rules ...rbacv1.PolicyRule) {
	f.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace + ":" + name}, Rules: rules}
	f.Expect(f.Client.Create(f.t.Context(), role)).To(Succeed())
	f.Expect(f.Client.Create(f.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	})).To(Succeed())
}

// account returns a client of a ServiceAccount whose token is not bound to a pod.
func (f *fixture) account(namespace, name string) client.Client {
	f.t.Helper()
	f.ensureAccount(namespace, name)
	config, err := f.TokenRESTConfig(f.t.Context(), namespace, name)
	f.Expect(err).NotTo(HaveOccurred())
	return f.client(config)
}

// pod returns a client with a token that is bound to a pod.
func (f *fixture) pod(namespace, account, name string) client.Client {
	f.t.Helper()
	f.ensureAccount(namespace, account)
	config, err := f.PodRESTConfig(f.t.Context(), namespace, account, name)
	f.Expect(err).NotTo(HaveOccurred())
	f.configs[name] = config
	return f.client(config)
}

func (f *fixture) ensureAccount(namespace, name string) {
	f.t.Helper()
	err := f.Client.Create(f.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	f.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
}

func (f *fixture) client(config *rest.Config) client.Client {
	f.t.Helper()
	made, err := client.New(config, client.Options{Scheme: f.Client.Scheme(), Mapper: f.Client.RESTMapper()})
	f.Expect(err).NotTo(HaveOccurred())
	return made
}

func (f *fixture) options() policies.Options {
	return policies.Options{Sharder: types.NamespacedName{Namespace: f.system, Name: "sharder"}}
}

// protect applies the policies of the ring except some, and waits until they are in force.
func (f *fixture) protect(options policies.Options, without ...policies.Rule) {
	f.t.Helper()
	objects, err := policies.ForRing(f.ring, options)
	f.Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		policy := object.(client.Object)
		f.t.Cleanup(func() { _ = f.Client.Delete(context.Background(), policy) })
		if !slices.ContainsFunc(without, func(rule policies.Rule) bool { return policy.GetName() == policies.Name(f.ring.Name, rule) }) {
			f.Expect(f.Client.Create(f.t.Context(), policy)).To(Succeed())
		}
	}
	f.waitForPolicies()
}

// waitForPolicies waits until the API server enforces policies that were just written. It writes one more, whose effect
// shows: the API server notices policies in their order.
func (f *fixture) waitForPolicies() {
	f.t.Helper()
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.unselected, Name: "probe"}}
	name := "probe-" + f.system
	last := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.unselected}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					ResourceNames: []string{probe.Name},
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
					},
				}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "probed"}},
		},
	}
	bound := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	for _, object := range []client.Object{last, bound} {
		f.Expect(f.Client.Create(f.t.Context(), object)).To(Succeed())
		f.t.Cleanup(func() { _ = f.Client.Delete(context.Background(), object) })
	}
	f.Eventually(func() error {
		return f.Client.Create(f.t.Context(), probe.DeepCopy(), client.DryRunAll)
	}).Should(MatchError(ContainSubstring("probed")))
}

// become makes a pod a shard of the ring: it holds a Lease of its name.
func (f *fixture) become(lease string, as client.Client) *coordinationv1.Lease {
	f.t.Helper()
	held := f.lease(f.system, lease)
	f.Expect(as.Create(f.t.Context(), held)).To(Succeed())
	return held
}

// lease returns a Lease of the ring, held in its own name.
func (f *fixture) lease(namespace, name string) *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: f.ring.Name},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: new(int32(15)), AcquireTime: &now, RenewTime: &now},
	}
}

func (f *fixture) shardLabel() string { return shardingv1alpha1.LabelShard(f.ring.Name) }
func (f *fixture) drainLabel() string { return shardingv1alpha1.LabelDrain(f.ring.Name) }

// created counts objects. They have names, because the webhook cannot assign an object before its name is generated.
var created atomic.Int64

// deployment creates a main object with an owner, or without.
func (f *fixture) deployment(namespace, owner string) *appsv1.Deployment {
	f.t.Helper()
	labels := map[string]string{"app": "x"}
	object := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("main-", created.Add(1)), Labels: map[string]string{}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
			},
		},
	}
	f.create(object, owner)
	return object
}

// child creates a controlled object with an owner, or without.
func (f *fixture) child(namespace, owner string) *corev1.ConfigMap {
	f.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "child-", Labels: map[string]string{}}}
	f.create(object, owner)
	return object
}

func (f *fixture) create(object client.Object, owner string) {
	f.t.Helper()
	if owner != "" {
		object.GetLabels()[f.shardLabel()] = owner
	}
	f.Expect(f.Client.Create(f.t.Context(), object)).To(Succeed())
}

// merge returns a merge patch.
func merge(content string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(content))
}

// label returns a merge patch that sets a label, or removes it.
func label(key, value string) client.Patch {
	if value == "" {
		return merge(`{"metadata":{"labels":{"` + key + `":null}}}`)
	}
	return merge(`{"metadata":{"labels":{"` + key + `":"` + value + `"}}}`)
}
