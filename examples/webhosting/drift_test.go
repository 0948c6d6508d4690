package main

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestExternalChangesAreReverted changes and deletes the children of a Website.
func TestExternalChangesAreReverted(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", withoutWorkload)
	f.waitForReady(site)
	f.waitUntilIdle(o, site)
	good := f.children(f, site)

	for name, test := range map[string]struct {
		change func(*children) client.Object
		is     func(*children) any // what must be restored
	}{
		"the page": {
			func(b *children) client.Object { b.page.Data["index.html"] = "<h1>Hacked</h1>"; return b.page },
			func(b *children) any { return b.page.Data },
		},
		"an additional file": {
			func(b *children) client.Object { b.page.Data["more.html"] = "more"; return b.page },
			func(b *children) any { return b.page.Data },
		},
		"a binary file": {
			func(b *children) client.Object { b.page.BinaryData = map[string][]byte{"more": {0}}; return b.page },
			func(b *children) any { return len(b.page.BinaryData) },
		},
		"the replicas": {
			func(b *children) client.Object { b.workload.Spec.Replicas = new(int32(3)); return b.workload },
			func(b *children) any { return *b.workload.Spec.Replicas },
		},
		"the image": {
			func(b *children) client.Object {
				b.workload.Spec.Template.Spec.Containers[0].Image = "apache"
				return b.workload
			},
			func(b *children) any { return b.workload.Spec.Template },
		},
		"an additional container": {
			func(b *children) client.Object {
				spec := &b.workload.Spec.Template.Spec
				spec.Containers = append(spec.Containers, corev1.Container{Name: "more", Image: "more"})
				return b.workload
			},
			func(b *children) any { return b.workload.Spec.Template },
		},
		"a paused rollout": {
			func(b *children) client.Object { b.workload.Spec.Paused = true; return b.workload },
			func(b *children) any { return b.workload.Spec.Paused },
		},
		"the Service's selector": {
			func(b *children) client.Object { b.service.Spec.Selector["more"] = "more"; return b.service },
			func(b *children) any { return []any{b.service.Spec.Selector, b.service.Spec.Ports} },
		},
		"the Service's port": {
			func(b *children) client.Object { b.service.Spec.Ports[0].Port = 81; return b.service },
			func(b *children) any { return []any{b.service.Spec.Selector, b.service.Spec.Ports} },
		},
		"the Service's type": {
			func(b *children) client.Object { b.service.Spec.Type = corev1.ServiceTypeNodePort; return b.service },
			func(b *children) any { return []any{b.service.Spec.Type, b.service.Spec.Ports} },
		},
		"a Service of type ExternalName": {
			func(b *children) client.Object {
				b.service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
				return b.service
			},
			func(b *children) any {
				return []any{b.service.Spec.Type, b.service.Spec.Ports, b.service.Spec.Selector, b.service.Spec.ExternalName}
			},
		},
		"the path": {
			func(b *children) client.Object {
				b.ingress.Spec.Rules[0].HTTP.Paths[0].Path = "/elsewhere"
				return b.ingress
			},
			func(b *children) any { return b.ingress.Spec },
		},
		"the label by which the cache selects": {
			func(b *children) client.Object {
				delete(b.ingress.Labels, "app.kubernetes.io/managed-by")
				return b.ingress
			},
			func(b *children) any { return b.ingress.Labels },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t, f.Rig)
			b := f.children(f, site)
			changed := test.change(b)
			f.Expect(f.Client.Update(t.Context(), changed)).To(Succeed())
			f.Eventually(func(g Gomega) {
				current := f.children(g, site)
				g.Expect(test.is(current)).To(Equal(test.is(good)))
				g.Expect(versionOf(current, changed)).NotTo(Equal(changed.GetResourceVersion()), "the object was written again")
			}).Should(Succeed())
			f.waitUntilIdle(o, site)
		})
	}

	kinds := slices.Sorted(maps.Keys(good.all()))
	for _, kind := range kinds {
		t.Run("deleted "+kind, func(t *testing.T) {
			f := setUp(t, f.Rig)
			gone := f.children(f, site).all()[kind]
			f.Expect(f.Client.Delete(t.Context(), gone)).To(Succeed())
			f.Eventually(func(g Gomega) types.UID { return f.children(g, site).all()[kind].GetUID() }).ShouldNot(Equal(gone.GetUID()))
			f.waitUntilIdle(o, site)
		})
	}
	f.waitForReady(site)
	f.Expect(o.failures()).To(BeEmpty())
}

// versionOf returns the resourceVersion of the child of the same kind.
func versionOf(b *children, sameKind client.Object) string {
	for _, object := range b.all() {
		if reflect.TypeOf(object) == reflect.TypeOf(sameKind) {
			return object.GetResourceVersion()
		}
	}
	return ""
}
