package status_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"config/crds"}})
}

// fixture is a ring of ConfigMaps, which control Secrets. Its shards are Leases that no process renews, and the test
// labels its objects.
type fixture struct {
	*rig.Rig
	*WithT
	t    *testing.T
	name string // of the ring
}

func setUp(t *testing.T, r *rig.Rig) *fixture {
	t.Helper()
	return &fixture{Rig: r, WithT: NewWithT(t), t: t, name: r.Namespace}
}

var resources = []shardingv1alpha1.RingResource{{
	GroupResource:       shardingv1alpha1.GroupResource{Resource: "configmaps"},
	ControlledResources: []shardingv1alpha1.GroupResource{{Resource: "secrets"}},
}}

// declare creates a ready ControllerRing for the namespace of the test.
func (f *fixture) declare() *shardingv1alpha1.ControllerRing {
	f.t.Helper()
	ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	ring.Spec.Resources = resources
	ring.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.Namespace}}
	f.Expect(f.Client.Create(f.t.Context(), ring)).To(Succeed())
	ring.Status = shardingv1alpha1.ControllerRingStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{{
		Type: "Ready", Status: "True", Reason: "Ready", LastTransitionTime: metav1.Now(),
	}}}
	f.Expect(f.Client.Status().Update(f.t.Context(), ring)).To(Succeed())
	return ring
}

// join creates the Lease of a shard that has just renewed it.
func (f *fixture) join(name string, changes ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	f.t.Helper()
	declared, err := json.Marshal(resources)
	f.Expect(err).NotTo(HaveOccurred())
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: name,
			Labels:      map[string]string{shardingv1alpha1.LabelControllerRing: f.name},
			Annotations: map[string]string{shardingv1alpha1.AnnotationResources: string(declared)},
		},
		// Long enough that no Lease expires during the test.
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now},
	}
	for _, change := range changes {
		change(lease)
	}
	f.Expect(f.Client.Create(f.t.Context(), lease)).To(Succeed())
	return lease
}

// lead creates the Lease of an in-process sharder.
func (f *fixture) lead(holder string) {
	f.t.Helper()
	f.join(f.name+"-sharder", func(l *coordinationv1.Lease) {
		l.Labels = map[string]string{shardingv1alpha1.LabelSharder: f.name}
		l.Annotations, l.Spec.HolderIdentity = nil, &holder
	})
}

// leading makes a Lease that of a leader that reconciles all objects.
func leading(ring, holder string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) {
		l.Labels = map[string]string{shardingv1alpha1.LabelLeader: ring, shardingv1alpha1.LabelSharder: ""}
		l.Spec.HolderIdentity = &holder
	}
}

func leaving(l *coordinationv1.Lease) { l.Annotations[shardingv1alpha1.AnnotationLeaving] = "true" }

func released(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") }

// create creates ConfigMaps of a shard, as kubectl and the webhook do.
func (f *fixture) create(shard string, names ...string) {
	f.t.Helper()
	var group sync.WaitGroup
	for _, name := range names {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name, Labels: f.labels(shard)}}
		group.Go(func() { f.Expect(f.Client.Create(f.t.Context(), object, client.FieldOwner("kubectl"))).To(Succeed()) })
	}
	group.Wait()
}

func (f *fixture) labels(shard string) map[string]string {
	if shard == "" {
		return nil
	}
	return map[string]string{shardingv1alpha1.LabelShard(f.name): shard}
}

// label writes a label on a ConfigMap, as the sharder does.
func (f *fixture) label(name, label, value string) *corev1.ConfigMap {
	f.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, label, value)
	f.Expect(f.Client.Patch(f.t.Context(), object, client.RawPatch("application/merge-patch+json", patch), client.FieldOwner("sharder"))).To(Succeed())
	return object
}

// adopt creates a Secret whose controller is a ConfigMap.
func (f *fixture) adopt(name, controller, shard string) {
	f.t.Helper()
	parent := &corev1.ConfigMap{}
	f.Expect(f.Client.Get(f.t.Context(), client.ObjectKey{Namespace: f.Namespace, Name: controller}, parent)).To(Succeed())
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.Namespace, Name: name, Labels: f.labels(shard),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: controller, UID: parent.UID, Controller: new(true)}},
	}}
	f.Expect(f.Client.Create(f.t.Context(), child)).To(Succeed())
}

// configMapOwnedBy returns the name of a ConfigMap that one of these shards should own.
func (f *fixture) configMapOwnedBy(shard string, shards ...string) string {
	r := ring.New(shards)
	for i := 0; ; i++ {
		name := fmt.Sprintf("object-%d", i)
		if r.Owner(assignment.Key(schema.GroupKind{Kind: "ConfigMap"}, f.Namespace, name)) == shard {
			return name
		}
	}
}

func (f *fixture) reader(config *rest.Config) *status.Reader {
	f.t.Helper()
	reader, err := status.NewReader(config, time.Now)
	f.Expect(err).NotTo(HaveOccurred())
	return reader
}

// ring returns a report on the ring of the test, with counted objects.
func (f *fixture) ring() status.Ring {
	f.t.Helper()
	report, err := f.reader(f.Config).Rings(f.t.Context(), status.Query{Rings: []string{f.name}, Count: true})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(report.Rings).To(HaveLen(1))
	return report.Rings[0]
}

// place returns a report on an object.
func (f *fixture) place(kind, name string) status.Place {
	f.t.Helper()
	report, err := f.reader(f.Config).Objects(f.t.Context(), status.Query{Rings: []string{f.name}, Namespace: f.Namespace}, []status.Name{{Type: kind, Name: name}})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(report.Objects).To(HaveLen(1))
	f.Expect(report.Objects[0].Places).To(HaveLen(1))
	return report.Objects[0].Places[0]
}

// account creates a ServiceAccount with rules for the cluster, and for the namespace of the test.
func (f *fixture) account(cluster, namespaced []rbacv1.PolicyRule) *rest.Config {
	f.t.Helper()
	const name = "somebody"
	inRings := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: f.Namespace, Name: name}}
	here := metav1.ObjectMeta{Namespace: f.Namespace, Name: name}
	everywhere := metav1.ObjectMeta{Name: f.Namespace}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: here},
		&rbacv1.ClusterRole{ObjectMeta: everywhere, Rules: cluster},
		&rbacv1.ClusterRoleBinding{ObjectMeta: everywhere, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: f.Namespace}, Subjects: inRings},
		&rbacv1.Role{ObjectMeta: here, Rules: namespaced},
		&rbacv1.RoleBinding{ObjectMeta: here, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name}, Subjects: inRings},
	} {
		f.Expect(f.Client.Create(f.t.Context(), object)).To(Succeed())
	}
	config, err := f.TokenRESTConfig(f.t.Context(), f.Namespace, name)
	f.Expect(err).NotTo(HaveOccurred())
	return config
}

func rule(verb, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: resources}
}
