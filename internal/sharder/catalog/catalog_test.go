package catalog_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

var (
	website   = schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "Website"}
	theme     = schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "Theme"}
	configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	all       = &metav1.LabelSelector{}
)

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(website, meta.RESTScopeNamespace)
	m.Add(theme, meta.RESTScopeRoot)
	m.Add(configMap, meta.RESTScopeNamespace)
	return m
}

func resource(group, name string, controlled ...shardingv1alpha1.GroupResource) shardingv1alpha1.RingResource {
	return shardingv1alpha1.RingResource{
		GroupResource:       shardingv1alpha1.GroupResource{Group: group, Resource: name},
		ControlledResources: controlled,
	}
}

func resolve(t *testing.T, resources ...shardingv1alpha1.RingResource) (*catalog.Ring, error) {
	t.Helper()
	return catalog.Resolve(&shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: "ring"},
		Spec:       shardingv1alpha1.ControllerRingSpec{Resources: resources},
	}, mapper(), all)
}

func controlledBy(version, kind, name string) *metav1.ObjectMeta {
	yes := true
	return &metav1.ObjectMeta{Namespace: "project", Name: "child", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: version, Kind: kind, Name: name, Controller: &yes},
	}}
}

// TestKeys shows that a child has the key of its controller, of whatever scope.
func TestKeys(t *testing.T) {
	const group = "webhosting.timebertt.dev"
	configMaps := shardingv1alpha1.GroupResource{Resource: "configmaps"}
	r, err := resolve(t, resource(group, "websites", configMaps), resource(group, "themes", configMaps))
	if err != nil {
		t.Fatal(err)
	}
	key := func(name string, object metav1.Object) string {
		t.Helper()
		main, err := r.Resource(schema.ParseGroupResource(name)).MainObject(object)
		if err != nil {
			t.Fatal(err)
		}
		return main.Key()
	}
	home := key("websites."+group, &metav1.ObjectMeta{Namespace: "project", Name: "home"})
	dark := key("themes."+group, &metav1.ObjectMeta{Name: "dark"})
	if got := key("configmaps", controlledBy(group+"/v1alpha1", "Website", "home")); got != home {
		t.Errorf("the child of a namespaced object has the key %s, not %s", got, home)
	}
	if got := key("configmaps", controlledBy(group+"/v9", "Website", "home")); got != home {
		t.Errorf("in another version it has the key %s, not %s", got, home)
	}
	if got := key("configmaps", controlledBy(group+"/v1alpha1", "Theme", "dark")); got != dark {
		t.Errorf("the child of a cluster-scoped object has the key %s, not %s", got, dark)
	}
}

func TestObjectsWithoutMainObject(t *testing.T) {
	const group = "webhosting.timebertt.dev"
	r, err := resolve(t, resource(group, "websites", shardingv1alpha1.GroupResource{Resource: "configmaps"}))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		resource string
		object   *metav1.ObjectMeta
		want     error
	}{
		"a name to be generated":     {"websites." + group, &metav1.ObjectMeta{GenerateName: "home-"}, catalog.ErrNoNameYet},
		"no controller":              {"configmaps", &metav1.ObjectMeta{Name: "free"}, catalog.ErrNotSharded},
		"a controller of other kind": {"configmaps", controlledBy("v1", "Secret", "home"), catalog.ErrNotSharded},
	} {
		if main, err := r.Resource(schema.ParseGroupResource(test.resource)).MainObject(test.object); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, %v", name, main, err)
		}
	}
}

// TestProtectedResources resolves a ring whose CRD did not refuse its resources.
func TestProtectedResources(t *testing.T) {
	r, err := resolve(t,
		resource("webhosting.timebertt.dev", "themes", shardingv1alpha1.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}),
		resource("", "nodes"))
	var unknown *catalog.UnknownResourceError
	if !errors.As(err, &unknown) || len(unknown.Protected) != 2 || len(unknown.Resources) != 0 {
		t.Fatalf("got %v", err)
	}
	if len(r.Resources) != 1 || r.Resources[0].Resource.Resource != "themes" {
		t.Errorf("the resources are %v, want only themes", r.Resources)
	}
}

func TestUnknownResources(t *testing.T) {
	r, err := resolve(t,
		resource("webhosting.timebertt.dev", "themes"),
		resource("example.com", "later",
			shardingv1alpha1.GroupResource{Group: "example.com", Resource: "children"},
			// Known, but it must not be taken for a main resource because its own is missing.
			shardingv1alpha1.GroupResource{Resource: "configmaps"}))
	var unknown *catalog.UnknownResourceError
	if !errors.As(err, &unknown) {
		t.Fatalf("got %v", err)
	}
	want := []schema.GroupResource{{Group: "example.com", Resource: "later"}, {Group: "example.com", Resource: "children"}}
	if diff := cmp.Diff(want, unknown.Resources); diff != "" {
		t.Error(diff)
	}
	if len(r.Resources) != 1 || r.Resources[0].Resource.Resource != "themes" {
		t.Errorf("the resources are %v, want only themes", r.Resources)
	}
}

func TestCatalog(t *testing.T) {
	var c catalog.Catalog
	if c.Get("ring") != nil {
		t.Error("an empty catalog has a ring")
	}
	c.Set(&catalog.Ring{Name: "ring", Generation: 1})
	c.Set(&catalog.Ring{Name: "ring", Generation: 2})
	if got := c.Get("ring"); got == nil || got.Generation != 2 {
		t.Errorf("got %v", got)
	}
	c.Delete("ring")
	if c.Get("ring") != nil {
		t.Error("the ring was not deleted")
	}
}
