package doctor_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/doctor"
	"github.com/ringmaster-project/ringmaster/config"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/roles"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"config/crds"}})
}

// fixture is a ring of ConfigMaps and Secrets, in the state in which a healthy sharder keeps it. The
// namespace of the test has the shards, and the sharder as well.
type fixture struct {
	*rig.Rig
	*WithT
	t    *testing.T
	name string // of the ring
	// resources are those of the ring.
	resources []shardingv1alpha1.RingResource
}

var resources = []shardingv1alpha1.RingResource{{
	GroupResource:       shardingv1alpha1.GroupResource{Resource: "configmaps"},
	ControlledResources: []shardingv1alpha1.GroupResource{{Resource: "secrets"}},
}}

func setUp(t *testing.T) *fixture {
	t.Helper()
	r := rig.Shared(t)
	f := &fixture{Rig: r, WithT: NewWithT(t), t: t, name: r.Namespace, resources: resources}
	f.declare()
	f.join("shard-0")
	f.addPod("shard-0", "operator", nil, "operator:1")
	f.addSharder()
	f.grantAll()
	f.addWebhook(f.authority(time.Hour*24*365), time.Hour*24*365)
	return f
}

func (f *fixture) create(objects ...client.Object) {
	f.t.Helper()
	for _, object := range objects {
		f.Expect(f.Client.Create(f.t.Context(), object)).To(Succeed())
	}
}

func (f *fixture) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: f.Namespace, Name: name}
}

// change reads an object, changes and writes it.
func change[T client.Object](f *fixture, object T, mutate func(T)) {
	f.t.Helper()
	f.Expect(f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	mutate(object)
	f.Expect(f.Client.Update(f.t.Context(), object)).To(Succeed())
}

func (f *fixture) remove(object client.Object) {
	f.t.Helper()
	f.Expect(f.Client.Delete(f.t.Context(), object, client.GracePeriodSeconds(0))).To(Succeed())
}

func (f *fixture) ring() *shardingv1alpha1.ControllerRing {
	return &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
}

// declare creates the ControllerRing.
func (f *fixture) declare() {
	f.t.Helper()
	ring := f.ring()
	ring.Spec.Resources = f.resources
	ring.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.Namespace}}
	f.create(ring)
	f.t.Cleanup(func() { _ = f.Client.Delete(context.Background(), f.ring()) })
	f.observe(func(*shardingv1alpha1.ControllerRingStatus) {})
}

// observe writes the status that a sharder writes when all is well, changed as asked.
func (f *fixture) observe(mutate func(*shardingv1alpha1.ControllerRingStatus)) {
	f.t.Helper()
	ring := f.ring()
	f.Expect(f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(ring), ring)).To(Succeed())
	ring.Status.ObservedGeneration, ring.Status.Shards, ring.Status.AvailableShards = ring.Generation, 1, 1
	for _, kind := range []string{"Ready", "Drained", "Assigned", "SoleSharder"} {
		meta.SetStatusCondition(&ring.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Fine"})
	}
	mutate(&ring.Status)
	f.Expect(f.Client.Status().Update(f.t.Context(), ring)).To(Succeed())
}

// changeSpec changes the ring, as the sharder observes it.
func (f *fixture) changeSpec(mutate func(*shardingv1alpha1.ControllerRingSpec)) {
	f.t.Helper()
	change(f, f.ring(), func(ring *shardingv1alpha1.ControllerRing) { mutate(&ring.Spec) })
	f.observe(func(*shardingv1alpha1.ControllerRingStatus) {})
}

// join creates the Lease of a shard that has just renewed it, for an hour.
func (f *fixture) join(name string, changes ...func(*coordinationv1.Lease)) {
	f.t.Helper()
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: f.meta(name),
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now},
	}
	lease.Labels = map[string]string{shardingv1alpha1.LabelControllerRing: f.name}
	lease.Annotations = map[string]string{shardingv1alpha1.AnnotationResources: f.encode(f.resources)}
	for _, change := range changes {
		change(lease)
	}
	f.create(lease)
	f.t.Cleanup(func() { _ = f.Client.Delete(context.Background(), lease) })
}

func (f *fixture) changeLease(name string, mutate func(*coordinationv1.Lease)) {
	f.t.Helper()
	change(f, &coordinationv1.Lease{ObjectMeta: f.meta(name)}, mutate)
}

func (f *fixture) encode(value any) string {
	f.t.Helper()
	content, err := json.Marshal(value)
	f.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// addPod creates a Pod, which nothing runs, with its ServiceAccount.
func (f *fixture) addPod(name, account string, labels map[string]string, image string) {
	f.t.Helper()
	f.Expect(client.IgnoreAlreadyExists(f.Client.Create(f.t.Context(), &corev1.ServiceAccount{ObjectMeta: f.meta(account)}))).To(Succeed())
	pod := &corev1.Pod{ObjectMeta: f.meta(name), Spec: corev1.PodSpec{
		ServiceAccountName: account, Containers: []corev1.Container{{Name: "sharder", Image: image}},
		SchedulingGates: []corev1.PodSchedulingGate{{Name: "ringmaster.test/none"}},
	}}
	pod.Labels = labels
	f.create(pod)
}

var sharderLabels = map[string]string{"app.kubernetes.io/name": "sharder"}

// addSharder creates what a sharder leaves in its namespace: Lease, Pod, Service and endpoints.
func (f *fixture) addSharder() {
	f.t.Helper()
	f.addPod("sharder-0", "sharder", sharderLabels, "sharder:1")
	f.join("sharder", func(lease *coordinationv1.Lease) {
		lease.Labels, lease.Annotations, lease.Spec.HolderIdentity = nil, nil, new("sharder-0_1234")
	})
	f.create(
		&corev1.Service{ObjectMeta: f.meta("sharder"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: f.Namespace, Name: "sharder-1", Labels: map[string]string{discoveryv1.LabelServiceName: "sharder"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		})
}

// grantAll lets the sharder and the shards do what they need.
func (f *fixture) grantAll() {
	f.t.Helper()
	objects, err := manifest.Read(config.Manifests, "rbac/sharder.yaml")
	f.Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		role := runtime.Object(&rbacv1.Role{})
		if object.GetKind() == "ClusterRole" {
			role = &rbacv1.ClusterRole{}
		}
		f.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role)).To(Succeed())
		f.grant("sharder", "own", role)
	}
	ring := f.ring()
	ring.Spec.Resources = f.resources
	f.grant("sharder", "ring", roles.ForSharder(ring)...)
	f.grant("operator", "ring", roles.ForShards(ring, types.NamespacedName{Namespace: f.Namespace, Name: "operator"})...)
}

// grant binds an account to the rules of roles. The roles get names of their own.
func (f *fixture) grant(account, name string, objects ...runtime.Object) {
	f.t.Helper()
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: f.Namespace, Name: account}}
	name = account + ":" + name
	for _, object := range objects {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			global := metav1.ObjectMeta{Name: f.Namespace + ":" + name}
			f.create(&rbacv1.ClusterRole{ObjectMeta: global, Rules: role.Rules},
				&rbacv1.ClusterRoleBinding{ObjectMeta: global, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: global.Name}, Subjects: subjects})
		case *rbacv1.Role:
			f.create(&rbacv1.Role{ObjectMeta: f.meta(name), Rules: role.Rules},
				&rbacv1.RoleBinding{ObjectMeta: f.meta(name), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name}, Subjects: subjects})
		}
	}
}

// revoke removes a binding that grant has created.
func (f *fixture) revoke(account, name string) {
	f.t.Helper()
	f.remove(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace + ":" + account + ":" + name}})
}

func (f *fixture) authority(life time.Duration) *pki.Authority {
	f.t.Helper()
	pair, err := pki.New("sharder-webhook-ca", life, time.Now())
	f.Expect(err).NotTo(HaveOccurred())
	authority, err := pki.Load(pair, time.Now())
	f.Expect(err).NotTo(HaveOccurred())
	return authority
}

func (f *fixture) certificate() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: f.meta("sharder-webhook-cert")}
}

func (f *fixture) webhook() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: shardingv1alpha1.WebhookConfigurationName(f.name)}}
}

// addWebhook creates the webhook configuration of the ring, and the certificate for it.
func (f *fixture) addWebhook(authority *pki.Authority, life time.Duration) {
	f.t.Helper()
	pair, err := authority.IssueFor(pki.Identity{Hosts: []string{"sharder." + f.Namespace + ".svc", "127.0.0.1"}}, life)
	f.Expect(err).NotTo(HaveOccurred())
	secret := f.certificate()
	secret.Type, secret.Data = corev1.SecretTypeTLS, map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key}
	configuration := f.webhook()
	configuration.Labels = map[string]string{shardingv1alpha1.LabelControllerRing: f.name}
	configuration.Webhooks = []admissionregistrationv1.MutatingWebhook{{
		Name: shardingv1alpha1.WebhookName, AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(1)),
		SideEffects: new(admissionregistrationv1.SideEffectClassNone), FailurePolicy: new(admissionregistrationv1.Ignore),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.Namespace}},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			CABundle: authority.Certificate(),
			Service:  &admissionregistrationv1.ServiceReference{Namespace: f.Namespace, Name: "sharder", Path: new(shardingv1alpha1.WebhookPath(f.name))},
		},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{"configmaps"}},
		}},
	}}
	f.create(secret, configuration)
	f.t.Cleanup(func() { _ = f.Client.Delete(context.Background(), f.webhook()) })
}

// replaceWebhook replaces the webhook configuration and the certificate.
func (f *fixture) replaceWebhook(authority *pki.Authority, life time.Duration) {
	f.t.Helper()
	f.remove(f.webhook())
	f.remove(f.certificate())
	f.addWebhook(authority, life)
}

func (f *fixture) changeWebhook(mutate func(*admissionregistrationv1.WebhookClientConfig)) {
	f.t.Helper()
	change(f, f.webhook(), func(c *admissionregistrationv1.MutatingWebhookConfiguration) { mutate(&c.Webhooks[0].ClientConfig) })
}

// account returns the access of a ServiceAccount that has a ClusterRole.
func (f *fixture) account(role *rbacv1.ClusterRole) *rest.Config {
	f.t.Helper()
	const name = "somebody"
	f.create(&corev1.ServiceAccount{ObjectMeta: f.meta(name)})
	f.grant(name, "all", role)
	config, err := f.TokenRESTConfig(f.t.Context(), f.Namespace, name)
	f.Expect(err).NotTo(HaveOccurred())
	return config
}

func (f *fixture) options(changes ...func(*doctor.Options)) doctor.Options {
	options := doctor.Options{Rings: []string{f.name}, SharderNamespace: f.Namespace, Now: time.Now}
	for _, change := range changes {
		change(&options)
	}
	return options
}

// expect runs the checks until they have exactly the findings: permissions take effect after a moment.
func (f *fixture) expect(config *rest.Config, options doctor.Options, want ...doctor.Reason) *doctor.Report {
	f.t.Helper()
	slices.Sort(want)
	var report *doctor.Report
	f.Eventually(func(g Gomega) {
		var err error
		report, err = doctor.Run(f.t.Context(), config, options)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(reasons(report)).To(Equal(want), "%s", f.encode(report))
	}, "20s", "200ms").Should(Succeed())
	return report
}

// reasons are the reasons of all findings, sorted and each once.
func reasons(report *doctor.Report) []doctor.Reason {
	var found []doctor.Reason
	for _, f := range findings(report) {
		found = append(found, f.Reason)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func findings(report *doctor.Report) (all []doctor.Finding) {
	for _, check := range report.Checks {
		all = append(all, check.Findings...)
	}
	return all
}
