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

// common is the Theme of the Websites that are always there.
const common = "common"

// create makes a Website, whose name is generated if it ends in a hyphen.
func (s *scene) create(name, of string, labels map[string]string) *unstructured.Unstructured {
	s.t.Helper()
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"theme": of}}}
	made.SetGroupVersionKind(website)
	made.SetNamespace(s.Namespace)
	made.SetLabels(labels)
	if strings.HasSuffix(name, "-") {
		made.SetGenerateName(name)
	} else {
		made.SetName(name)
	}
	s.Expect(s.Client.Create(context.Background(), made)).To(Succeed())
	return made
}

// populate makes some of the Websites that are always there, after their Theme.
func (s *scene) populate(n int) {
	s.t.Helper()
	s.paint(common)
	there := len(s.websites(s, common))
	for i := range n {
		s.create(fmt.Sprint("always-", there+i), common, nil)
	}
}

// paint gives a Theme another color, after it was made if there is none yet, and returns that.
func (s *scene) paint(name string) string {
	s.t.Helper()
	s.mu.Lock()
	s.colors++
	color := fmt.Sprintf("#%06d", s.colors)
	s.mu.Unlock()
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"color": color, "fontFamily": "Menlo"}}}
	made.SetGroupVersionKind(theme)
	made.SetName(name)
	// Nobody else writes Themes, so whatever it was is to be this.
	s.Expect(s.Client.Apply(context.Background(), client.ApplyConfigurationFromUnstructured(made), client.FieldOwner("test"))).To(Succeed())
	return color
}

// websites are those of a Theme.
func (s *scene) websites(g Gomega, of string) map[string]*unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(website)
	g.Expect(s.Client.List(context.Background(), list, client.InNamespace(s.Namespace))).To(Succeed())
	found := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		if is, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "theme"); is == of {
			found[list.Items[i].GetName()] = &list.Items[i]
		}
	}
	return found
}

// pages are the contents of the Websites' ConfigMaps, by the Websites' names.
func (s *scene) pages(g Gomega) map[string]string {
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

// painted waits until all Websites of a Theme show a color.
func (s *scene) painted(of, color string) {
	s.t.Helper()
	all := s.websites(s, of)
	s.Eventually(func(g Gomega) {
		pages := s.pages(g)
		for name := range all {
			if !strings.Contains(pages[name], color) {
				g.Expect(name).To(BeEmpty(), "its page is not %s:\n%s", color, pages[name])
			}
		}
	}).Should(Succeed())
}

// works waits until every Website that is always there has been worked on.
func (s *scene) works() {
	s.t.Helper()
	s.painted(common, s.paint(common))
}

// family are the objects of a Website, by kind.
func (s *scene) family(g Gomega, of client.Object) map[string]client.Object {
	return s.families(g)[of.GetUID()]
}

// families are the objects of all Websites, by the UIDs of those and by kind.
func (s *scene) families(g Gomega) map[types.UID]map[string]client.Object {
	families := map[types.UID]map[string]client.Object{}
	for kind, list := range map[string]client.ObjectList{
		"ConfigMap": &corev1.ConfigMapList{}, "Deployment": &appsv1.DeploymentList{}, "Service": &corev1.ServiceList{}, "Ingress": &networkingv1.IngressList{},
	} {
		g.Expect(s.Client.List(context.Background(), list, client.InNamespace(s.Namespace))).To(Succeed())
		for _, object := range items(list) {
			owner := metav1.GetControllerOfNoCopy(object)
			if owner == nil {
				continue
			}
			if families[owner.UID] == nil {
				families[owner.UID] = map[string]client.Object{}
			}
			g.Expect(families[owner.UID]).NotTo(HaveKey(kind), "%s has two of them", owner.Name)
			families[owner.UID][kind] = object
		}
	}
	return families
}

// items are the objects in a list of one of the kinds that Websites control.
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

// complete waits until a Website has all that belongs to it.
func (s *scene) complete(of client.Object) map[string]client.Object {
	s.t.Helper()
	var family map[string]client.Object
	s.Eventually(func(g Gomega) {
		family = s.family(g, of)
		g.Expect(slices.Sorted(maps.Keys(family))).To(Equal([]string{"ConfigMap", "Deployment", "Ingress", "Service"}))
	}).Should(Succeed())
	return family
}

// makeReady does what a node would do with a Deployment.
func (s *scene) makeReady(of client.Object) {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		deployment, found := s.family(g, of)["Deployment"].(*appsv1.Deployment)
		g.Expect(found).To(BeTrue())
		deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		g.Expect(s.Client.Status().Update(context.Background(), deployment)).To(Succeed())
	}).Should(Succeed())
}

// says waits until the status of a Website says how it is doing now.
func (s *scene) says(of client.Object, phase string) {
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

// owners are the shards of the Websites that are always there. In the mode lead they have none.
func (s *scene) owners(g Gomega) map[string]string {
	owners := map[string]string{}
	for name, found := range s.websites(g, common) {
		owners[name] = found.GetLabels()[shardingv1alpha1.LabelShard(ring)]
	}
	return owners
}

// settled waits until every Website is where it belongs, with all that belongs to it: on its shard, if
// there are any, and otherwise without a label.
func (s *scene) settled() {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		var names []string
		if s.mode.spread() {
			for _, m := range s.live() {
				names = append(names, m.name)
			}
		}
		members, families := spread.New(names), s.families(g)
		for name, found := range s.websites(g, common) {
			want := members.Owner(assignment.Key(website.GroupKind(), s.Namespace, name))
			s.expectLabels(g, found, want)
			for _, child := range families[found.GetUID()] {
				s.expectLabels(g, child, want)
			}
		}
	}).Should(Succeed())
}

func (s *scene) expectLabels(g Gomega, object client.Object, want string) {
	labels := object.GetLabels()
	g.Expect(labels[shardingv1alpha1.LabelShard(ring)]).To(Equal(want), "%T %s", object, object.GetName())
	g.Expect(labels).NotTo(HaveKey(shardingv1alpha1.LabelDrain(ring)), "%T %s", object, object.GetName())
}
