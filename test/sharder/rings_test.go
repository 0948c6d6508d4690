package sharder_test

import (
	"context"
	"os"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// warnings records the warnings of the API server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

// TestRingIsDeletedAndDeclaredAgain without a garbage collector, which does not run here.
func TestRingIsDeletedAndDeclaredAgain(t *testing.T) {
	f := setUp(t)
	f.start("sharder-0", ringRole)
	f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	f.create(0, 5)
	f.ownedBy(5, "a")

	t.Log("The webhook of a deleted ring is not called")
	f.Expect(f.Client.Delete(t.Context(), f.ring)).To(Succeed())
	webhook := client.ObjectKey{Name: "controllerring-" + f.ring.Name}
	f.Eventually(func() bool {
		return apierrors.IsNotFound(f.Client.Get(t.Context(), webhook, &admissionregistrationv1.MutatingWebhookConfiguration{}))
	}).Should(BeTrue())
	recorded := &warnings{}
	config := rest.CopyConfig(f.Config)
	config.WarningHandler = recorded
	user, err := client.New(config, client.Options{})
	f.Expect(err).NotTo(HaveOccurred())
	created := 0
	f.Eventually(func() []string { // until the API server has observed the deletion
		created++
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, GenerateName: "later-"}}
		f.Expect(user.Create(t.Context(), object)).To(Succeed())
		f.Expect(object.Labels).NotTo(HaveKey(shardingv1alpha1.LabelShard(f.ring.Name)))
		return recorded.take()
	}).Should(BeEmpty())

	t.Log("A new ring of that name assigns the objects that were created meanwhile")
	f.ring.ObjectMeta = metav1.ObjectMeta{Name: f.ring.Name}
	f.Expect(f.Client.Create(t.Context(), f.ring)).To(Succeed())
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	f.ownedBy(5+created, "a")
	f.Eventually(func() error {
		return f.Client.Get(t.Context(), webhook, &admissionregistrationv1.MutatingWebhookConfiguration{})
	}).Should(Succeed())
}

// examples creates n objects of the new kind.
func (f *fixture) examples(prefix string, n int) {
	f.t.Helper()
	for range n {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("sharder.ringmaster.test/v1")
		object.SetKind("Example")
		object.SetNamespace(f.Namespace)
		object.SetGenerateName(prefix)
		// The client has to discover the kind.
		f.Eventually(func() error { return f.Client.Create(context.Background(), object) }).Should(Succeed())
	}
}

// TestRingForMissingKindStartsWithItsCRD creates a ring before the CRD of its main resource.
func TestRingForMissingKindStartsWithItsCRD(t *testing.T) {
	f := setUp(t, func(ring *shardingv1alpha1.ControllerRing) {
		ring.Spec.Resources = []shardingv1alpha1.RingResource{{
			GroupResource:       shardingv1alpha1.GroupResource{Group: "sharder.ringmaster.test", Resource: "examples"},
			ControlledResources: []shardingv1alpha1.GroupResource{{Resource: "configmaps"}},
		}}
	})
	f.start("sharder-0", "test/sharder/testdata/examples-role.yaml")
	f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonUnknownResource)

	content, err := os.ReadFile("testdata/examples-crd.yaml")
	f.Expect(err).NotTo(HaveOccurred())
	definition := &unstructured.Unstructured{}
	f.Expect(yaml.Unmarshal(content, &definition.Object)).To(Succeed())
	f.Expect(f.Client.Create(t.Context(), definition)).To(Succeed())
	t.Cleanup(func() { _ = f.Client.Delete(context.Background(), definition) })
	f.examples("before-", 5)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	f.examples("after-", 5)
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("sharder.ringmaster.test/v1")
	list.SetKind("ExampleList")
	f.Eventually(func() int {
		f.Expect(f.Client.List(t.Context(), list, client.MatchingLabels{shardingv1alpha1.LabelShard(f.ring.Name): "a"})).To(Succeed())
		return len(list.Items)
	}).Should(Equal(10))

	t.Log("The API server calls the webhook for a custom resource and its children")
	yes := true
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.Namespace, GenerateName: "owned-", OwnerReferences: []metav1.OwnerReference{owner("sharder.ringmaster.test/v1", "Example", &yes)},
	}}
	f.Expect(f.Client.Create(t.Context(), owned)).To(Succeed())
	f.Expect(owned.Labels).To(HaveKeyWithValue(shardingv1alpha1.LabelShard(f.ring.Name), "a"))
	named := &unstructured.Unstructured{}
	named.SetAPIVersion("sharder.ringmaster.test/v1")
	named.SetKind("Example")
	named.SetNamespace(f.Namespace)
	named.SetName("named")
	f.Expect(f.Client.Create(t.Context(), named)).To(Succeed())
	f.Expect(named.GetLabels()).To(HaveKeyWithValue(shardingv1alpha1.LabelShard(f.ring.Name), "a"))
}

// TestObjectsOfNewlySelectedNamespaceAreAssigned labels a namespace that has objects. They are assigned long
// before the next resync.
func TestObjectsOfNewlySelectedNamespaceAreAssigned(t *testing.T) {
	f := setUp(t, func(ring *shardingv1alpha1.ControllerRing) {
		ring.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"selected-by": ring.Name}}
	})
	f.start("sharder-0", ringRole)
	f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	f.condition(shardingv1alpha1.ConditionAssigned, shardingv1alpha1.ReasonAssigned)
	f.create(0, 3)
	f.Expect(f.owners()).To(HaveKeyWithValue("", 3))
	namespace := &corev1.Namespace{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.Namespace}, namespace)).To(Succeed())
	metav1.SetMetaDataLabel(&namespace.ObjectMeta, "selected-by", f.ring.Name)
	f.Expect(f.Client.Update(t.Context(), namespace)).To(Succeed())
	f.ownedBy(3, "a")
}
