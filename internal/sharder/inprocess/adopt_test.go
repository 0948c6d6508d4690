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

// TestWanted keeps what is others': most objects without a label are.
func TestWanted(t *testing.T) {
	going := object("project", "a", "1")
	going.DeletionTimestamp = &metav1.Time{}
	held := going.DeepCopy()
	held.Finalizers = []string{"example.com/hold"}
	for name, test := range map[string]struct {
		resource *catalog.Resource
		object   *metav1.PartialObjectMetadata
		want     bool
	}{
		"main object":                 {main, object("project", "a", "1"), true},
		"in another namespace":        {main, object("elsewhere", "a", "1"), false},
		"about to be gone":            {main, going, false},
		"deleted, but still there":    {main, held, true},
		"child":                       {children, object("project", "a", "1", controlledBy("Website")), true},
		"child of somebody else":      {children, object("project", "a", "1", controlledBy("Other")), false},
		"without a controller at all": {children, object("project", "a", "1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			waiting := newNewcomers(test.resource, func(namespace string) bool { return namespace == "project" })
			if err := waiting.Add(test.object); err != nil {
				t.Fatal(err)
			}
			if got := waiting.queue.Len() == 1; got != test.want {
				t.Errorf("it waits for a shard: %t, want %t", got, test.want)
			}
			if len(waiting.objects) != waiting.queue.Len() {
				t.Errorf("%d objects are kept", len(waiting.objects))
			}
		})
	}
}

func TestNewcomers(t *testing.T) {
	waiting := newNewcomers(main, func(string) bool { return true })
	var settled []string
	settle := func(o *metav1.PartialObjectMetadata) error {
		settled = append(settled, o.Name+"@"+o.ResourceVersion)
		return nil
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(waiting.Add(object("project", "a", "1")))
	do(waiting.Update(object("project", "a", "2")))
	do(waiting.Add(object("project", "b", "3")))
	do(waiting.Delete(object("project", "b", "4"))) // somebody else was faster
	waiting.next(settle)
	waiting.next(settle)
	if diff := cmp.Diff([]string{"a@2"}, settled); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	t.Log("What fails is tried again, by itself")
	do(waiting.Replace([]any{object("project", "c", "5")}, "5"))
	waiting.next(func(*metav1.PartialObjectMetadata) error { return errors.New("not now") })
	settled = nil
	waiting.next(settle)
	if diff := cmp.Diff([]string{"c@5"}, settled); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	t.Log("What changes meanwhile comes again")
	do(waiting.Add(object("project", "d", "6")))
	settled = nil
	waiting.next(func(o *metav1.PartialObjectMetadata) error {
		do(waiting.Add(object("project", "d", "7")))
		return settle(o)
	})
	waiting.next(settle)
	if diff := cmp.Diff([]string{"d@6", "d@7"}, settled); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(waiting.objects) > 0 {
		t.Errorf("%d objects are kept, although none waits", len(waiting.objects))
	}
	waiting.queue.ShutDown()
	if waiting.next(settle) {
		t.Error("there is more to do after the end")
	}
}
