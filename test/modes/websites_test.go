package modes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	spread "github.com/ringmaster-project/ringmaster/internal/ring"
)

// common is the Theme of the permanent Websites.
const common = "common"

// create creates a Website, with a generated name if the name ends with a hyphen.
func (s *scenario) create(name, theme string, labels map[string]string) *unstructured.Unstructured {
	s.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"theme": theme}}}
	object.SetGroupVersionKind(website)
	object.SetNamespace(s.Namespace)
	object.SetLabels(labels)
	if strings.HasSuffix(name, "-") {
		object.SetGenerateName(name)
	} else {
		object.SetName(name)
	}
	s.Expect(s.Client.Create(context.Background(), object)).To(Succeed())
	return object
}

// populate creates permanent Websites and their Theme.
func (s *scenario) populate(n int) {
	s.t.Helper()
	s.changeTheme(common)
	there := len(s.websites(s, common))
	for i := range n {
		s.create(fmt.Sprint("always-", there+i), common, nil)
	}
}

// changeTheme sets a new color of a Theme, which it creates if necessary, and returns the color.
func (s *scenario) changeTheme(name string) string {
	s.t.Helper()
	s.mu.Lock()
	s.colors++
	color := fmt.Sprintf("#%06d", s.colors)
	s.mu.Unlock()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"color": color, "fontFamily": "Menlo"}}}
	object.SetGroupVersionKind(theme)
	object.SetName(name)
	// Without a precondition, because no other client writes Themes.
	s.Expect(s.Client.Apply(context.Background(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"))).To(Succeed())
	return color
}

// websites returns the Websites of a Theme.
func (s *scenario) websites(g Gomega, theme string) map[string]*unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(website)
	g.Expect(s.Client.List(context.Background(), list, client.InNamespace(s.Namespace))).To(Succeed())
	found := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		if is, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "theme"); is == theme {
			found[list.Items[i].GetName()] = &list.Items[i]
		}
	}
	return found
}

// pages returns the contents of the Websites' ConfigMaps, by the names of the Websites.
func (s *scenario) pages(g Gomega) map[string]string {
	list := &corev1.ConfigMapList{}
	g.Expect(s.Client.List(context.Background(), list, client.InNamespace(s.Namespace))).To(Succeed())
	pages := map[string]string{}
	for i := range list.Items {
		if owner := metav1.GetControllerOfNoCopy(&list.Items[i]); owner != nil {
			pages[owner.Name] = list.Items[i].Data["index.html"]
		}
	}
	return pages
}

// waitForColor waits until the pages of all Websites of a Theme have a color.
func (s *scenario) waitForColor(theme, color string) {
	s.t.Helper()
	all := s.websites(s, theme)
	s.Eventually(func(g Gomega) {
		pages := s.pages(g)
		for name := range all {
			if !strings.Contains(pages[name], color) {
				g.Expect(name).To(BeEmpty(), "its page is not %s:\n%s", color, pages[name])
			}
		}
	}).Should(Succeed())
}

// waitForReconciles waits until all permanent Websites have been reconciled.
func (s *scenario) waitForReconciles() {
	s.t.Helper()
	s.waitForColor(common, s.changeTheme(common))
}

// children returns the children of a Website by kind.
func (s *scenario) children(g Gomega, website client.Object) map[string]client.Object {
	return s.childrenOfAll(g)[website.GetUID()]
}

// childrenOfAll returns the children of all Websites, by the UID of the Website and by kind.
func (s *scenario) childrenOfAll(g Gomega) map[types.UID]map[string]client.Object {
	byWebsite := map[types.UID]map[string]client.Object{}
	for kind, list := range map[string]client.ObjectList{
		"ConfigMap": &corev1.ConfigMapList{}, "Deployment": &appsv1.DeploymentList{}, "Service": &corev1.ServiceList{}, "Ingress": &networkingv1.IngressList{},
	} {
		g.Expect(s.Client.List(context.Background(), list, client.InNamespace(s.Namespace))).To(Succeed())
		for _, object := range items(list) {
			owner := metav1.GetControllerOfNoCopy(object)
			if owner == nil {
				continue
			}
			if byWebsite[owner.UID] == nil {
				byWebsite[owner.UID] = map[string]client.Object{}
			}
			g.Expect(byWebsite[owner.UID]).NotTo(HaveKey(kind), "%s has two of them", owner.Name)
			byWebsite[owner.UID][kind] = object
		}
	}
	return byWebsite
}

// items returns the objects in a list of a controlled kind.
func items(list client.ObjectList) []client.Object {
	switch list := list.(type) {
	case *corev1.ConfigMapList:
		return pointers[corev1.ConfigMap](list.Items)
	case *appsv1.DeploymentList:
		return pointers[appsv1.Deployment](list.Items)
	case *corev1.ServiceList:
		return pointers[corev1.Service](list.Items)
	case *networkingv1.IngressList:
		return pointers[networkingv1.Ingress](list.Items)
	}
	return nil
}

func pointers[T any, P interface {
	*T
	client.Object
}](items []T) []client.Object {
	var objects []client.Object
	for i := range items {
		objects = append(objects, P(&items[i]))
	}
	return objects
}

// waitForChildren waits until a Website has all its children.
func (s *scenario) waitForChildren(website client.Object) map[string]client.Object {
	s.t.Helper()
	var children map[string]client.Object
	s.Eventually(func(g Gomega) {
		children = s.children(g, website)
		g.Expect(slices.Sorted(maps.Keys(children))).To(Equal([]string{"ConfigMap", "Deployment", "Ingress", "Service"}))
	}).Should(Succeed())
	return children
}

// makeReady updates the status of a Deployment as controllers and a node would.
func (s *scenario) makeReady(website client.Object) {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		deployment, found := s.children(g, website)["Deployment"].(*appsv1.Deployment)
		g.Expect(found).To(BeTrue())
		deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		g.Expect(s.Client.Status().Update(context.Background(), deployment)).To(Succeed())
	}).Should(Succeed())
}

// waitForPhase waits until the status of a Website has a phase.
func (s *scenario) waitForPhase(of client.Object, phase string) {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(website)
		g.Expect(s.Client.Get(context.Background(), client.ObjectKeyFromObject(of), found)).To(Succeed())
		is, _, _ := unstructured.NestedString(found.Object, "status", "phase")
		g.Expect(is).To(Equal(phase))
		observed, _, _ := unstructured.NestedInt64(found.Object, "status", "observedGeneration")
		g.Expect(observed).To(Equal(found.GetGeneration()))
	}).Should(Succeed())
}

// owners returns the owners of the permanent Websites, which have none in the mode lead.
func (s *scenario) owners(g Gomega) map[string]string {
	owners := map[string]string{}
	for name, found := range s.websites(g, common) {
		owners[name] = found.GetLabels()[shardingv1alpha1.LabelShard(ring)]
	}
	return owners
}

// waitForOwners waits until every Website and its children have the right owner, or no label in a mode that does not
// shard.
func (s *scenario) waitForOwners() {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		var names []string
		if s.mode.sharded() {
			for _, m := range s.running() {
				names = append(names, m.name)
			}
		}
		members, byWebsite := spread.New(names), s.childrenOfAll(g)
		for name, found := range s.websites(g, common) {
			want := members.Owner(assignment.Key(website.GroupKind(), s.Namespace, name))
			s.expectLabels(g, found, want)
			for _, child := range byWebsite[found.GetUID()] {
				s.expectLabels(g, child, want)
			}
		}
	}).Should(Succeed())
}

func (s *scenario) expectLabels(g Gomega, object client.Object, want string) {
	labels := object.GetLabels()
	g.Expect(labels[shardingv1alpha1.LabelShard(ring)]).To(Equal(want), "%T %s", object, object.GetName())
	g.Expect(labels).NotTo(HaveKey(shardingv1alpha1.LabelDrain(ring)), "%T %s", object, object.GetName())
}
