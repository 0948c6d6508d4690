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

// TestOthersAct lets somebody else change and delete what belongs to a Website.
func TestOthersAct(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", light)
	f.ready(site)
	f.calm(o, site)
	good := f.belongings(f, site)

	for name, test := range map[string]struct {
		spoil func(*belongings) client.Object
		is    func(*belongings) any // what has to be as it was
	}{
		"the page": {
			func(b *belongings) client.Object { b.page.Data["index.html"] = "<h1>Hacked</h1>"; return b.page },
			func(b *belongings) any { return b.page.Data },
		},
		"one more file": {
			func(b *belongings) client.Object { b.page.Data["more.html"] = "more"; return b.page },
			func(b *belongings) any { return b.page.Data },
		},
		"a binary file": {
			func(b *belongings) client.Object { b.page.BinaryData = map[string][]byte{"more": {0}}; return b.page },
			func(b *belongings) any { return len(b.page.BinaryData) },
		},
		"the replicas": {
			func(b *belongings) client.Object { b.workload.Spec.Replicas = new(int32(3)); return b.workload },
			func(b *belongings) any { return *b.workload.Spec.Replicas },
		},
		"the image": {
			func(b *belongings) client.Object {
				b.workload.Spec.Template.Spec.Containers[0].Image = "apache"
				return b.workload
			},
			func(b *belongings) any { return b.workload.Spec.Template },
		},
		"one more container": {
			func(b *belongings) client.Object {
				spec := &b.workload.Spec.Template.Spec
				spec.Containers = append(spec.Containers, corev1.Container{Name: "more", Image: "more"})
				return b.workload
			},
			func(b *belongings) any { return b.workload.Spec.Template },
		},
		"a rollout that is paused": {
			func(b *belongings) client.Object { b.workload.Spec.Paused = true; return b.workload },
			func(b *belongings) any { return b.workload.Spec.Paused },
		},
		"the Service's selector": {
			func(b *belongings) client.Object { b.service.Spec.Selector["more"] = "more"; return b.service },
			func(b *belongings) any { return []any{b.service.Spec.Selector, b.service.Spec.Ports} },
		},
		"the Service's port": {
			func(b *belongings) client.Object { b.service.Spec.Ports[0].Port = 81; return b.service },
			func(b *belongings) any { return []any{b.service.Spec.Selector, b.service.Spec.Ports} },
		},
		"the Service's type": {
			func(b *belongings) client.Object { b.service.Spec.Type = corev1.ServiceTypeNodePort; return b.service },
			func(b *belongings) any { return []any{b.service.Spec.Type, b.service.Spec.Ports} },
		},
		"a Service that leads away": {
			func(b *belongings) client.Object {
				b.service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
				return b.service
			},
			func(b *belongings) any {
				return []any{b.service.Spec.Type, b.service.Spec.Ports, b.service.Spec.Selector, b.service.Spec.ExternalName}
			},
		},
		"the path": {
			func(b *belongings) client.Object {
				b.ingress.Spec.Rules[0].HTTP.Paths[0].Path = "/elsewhere"
				return b.ingress
			},
			func(b *belongings) any { return b.ingress.Spec },
		},
		"a label by which the cache selects": {
			func(b *belongings) client.Object {
				delete(b.ingress.Labels, "app.kubernetes.io/managed-by")
				return b.ingress
			},
			func(b *belongings) any { return b.ingress.Labels },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t, f.Rig)
			b := f.belongings(f, site)
			spoilt := test.spoil(b)
			f.Expect(f.Client.Update(t.Context(), spoilt)).To(Succeed())
			f.Eventually(func(g Gomega) {
				is := f.belongings(g, site)
				g.Expect(test.is(is)).To(Equal(test.is(good)))
				g.Expect(versionOf(is, spoilt)).NotTo(Equal(spoilt.GetResourceVersion()), "it has been written again")
			}).Should(Succeed())
			f.calm(o, site)
		})
	}

	kinds := slices.Sorted(maps.Keys(good.all()))
	for _, kind := range kinds {
		t.Run("deleted "+kind, func(t *testing.T) {
			f := setUp(t, f.Rig)
			gone := f.belongings(f, site).all()[kind]
			f.Expect(f.Client.Delete(t.Context(), gone)).To(Succeed())
			f.Eventually(func(g Gomega) types.UID { return f.belongings(g, site).all()[kind].GetUID() }).ShouldNot(Equal(gone.GetUID()))
			f.calm(o, site)
		})
	}
	f.ready(site)
	f.Expect(o.failures()).To(BeEmpty())
}

// versionOf is the version that the object of the same kind has.
func versionOf(b *belongings, like client.Object) string {
	for _, object := range b.all() {
		if reflect.TypeOf(object) == reflect.TypeOf(like) {
			return object.GetResourceVersion()
		}
	}
	return ""
}
