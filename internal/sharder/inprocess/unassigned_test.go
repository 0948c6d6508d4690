package inprocess

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

func object(namespace, name, version string, owners ...metav1.OwnerReference) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, ResourceVersion: version, OwnerReferences: owners,
	}}
}

func controlledBy(kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "example.com/v1", Kind: kind, Name: "owner", Controller: new(true)}
}

var (
	websites = catalog.Kind{GroupKind: schema.GroupKind{Group: "example.com", Kind: "Website"}, Namespaced: true}
	main     = &catalog.Resource{Kind: websites}
	children = &catalog.Resource{
		Kind:        catalog.Kind{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespaced: true},
		Controllers: []catalog.Kind{websites},
	}
)

// TestIsUnassigned ignores objects that are not in the ring, as most objects without a label.
func TestIsUnassigned(t *testing.T) {
	deleted := object("project", "a", "1")
	deleted.DeletionTimestamp = &metav1.Time{}
	finalized := deleted.DeepCopy()
	finalized.Finalizers = []string{"example.com/hold"}
	for name, test := range map[string]struct {
		resource *catalog.Resource
		object   *metav1.PartialObjectMetadata
		want     bool
	}{
		"main object":                 {main, object("project", "a", "1"), true},
		"in another namespace":        {main, object("elsewhere", "a", "1"), false},
		"about to be gone":            {main, deleted, false},
		"deleted, but still there":    {main, finalized, true},
		"child":                       {children, object("project", "a", "1", controlledBy("Website")), true},
		"child of somebody else":      {children, object("project", "a", "1", controlledBy("Other")), false},
		"without a controller at all": {children, object("project", "a", "1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			unassigned := newUnassignedObjects(test.resource, func(namespace string) bool { return namespace == "project" })
			if err := unassigned.Add(test.object); err != nil {
				t.Fatal(err)
			}
			if got := unassigned.queue.Len() == 1; got != test.want {
				t.Errorf("it is unassigned: %t, want %t", got, test.want)
			}
			if len(unassigned.objects) != unassigned.queue.Len() {
				t.Errorf("%d objects are kept", len(unassigned.objects))
			}
		})
	}
}

func TestFailedAndChangedObjectsAreAssignedAgain(t *testing.T) {
	unassigned := newUnassignedObjects(main, func(string) bool { return true })
	var assigned []string
	assign := func(o *metav1.PartialObjectMetadata) error {
		assigned = append(assigned, o.Name+"@"+o.ResourceVersion)
		return nil
	}
	expect := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect(unassigned.Add(object("project", "a", "1")))
	expect(unassigned.Update(object("project", "a", "2")))
	expect(unassigned.Add(object("project", "b", "3")))
	expect(unassigned.Delete(object("project", "b", "4"))) // another client assigned it
	unassigned.next(assign)
	unassigned.next(assign)
	if diff := cmp.Diff([]string{"a@2"}, assigned); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	t.Log("A failed object is retried")
	expect(unassigned.Replace([]any{object("project", "c", "5")}, "5"))
	unassigned.next(func(*metav1.PartialObjectMetadata) error { return errors.New("not now") })
	assigned = nil
	unassigned.next(assign)
	if diff := cmp.Diff([]string{"c@5"}, assigned); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	t.Log("An object that changes meanwhile is assigned again")
	expect(unassigned.Add(object("project", "d", "6")))
	assigned = nil
	unassigned.next(func(o *metav1.PartialObjectMetadata) error {
		expect(unassigned.Add(object("project", "d", "7")))
		return assign(o)
	})
	unassigned.next(assign)
	if diff := cmp.Diff([]string{"d@6", "d@7"}, assigned); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(unassigned.objects) > 0 {
		t.Errorf("%d objects are kept, although none is unassigned", len(unassigned.objects))
	}
	unassigned.queue.ShutDown()
	if unassigned.next(assign) {
		t.Error("next returns an object after the shutdown")
	}
}
