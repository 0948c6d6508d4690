package website

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestChildIsDeletedMeanwhile deletes a ConfigMap that is missing in the cache between a failed
// creation and the read from the API server.
func TestChildIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	own := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "page"}}
	}
	server := fake.NewClientBuilder().WithObjects(own()).Build()
	deleting := interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := c.Delete(ctx, own()); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	r := &reconciler{Client: emptyCache{server}, live: deleting}
	created, err := r.findOrCreate(t.Context(), child{kind: "ConfigMap", desired: own(), current: &corev1.ConfigMap{}}, false)
	if err != nil || !created {
		t.Errorf("created %t: %v", created, err)
	}
}

// TestChildOfHandedOverWebsiteIsReadBeforeCreation has a child that the new owner's cache does not
// show yet, and one that does not exist.
func TestChildOfHandedOverWebsiteIsReadBeforeCreation(t *testing.T) {
	t.Parallel()
	page := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	creations := 0
	server := interceptor.NewClient(fake.NewClientBuilder().WithObjects(page("existing")).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			creations++
			return c.Create(ctx, object, options...)
		},
	})
	r := &reconciler{Client: emptyCache{server}, live: server}
	current := &corev1.ConfigMap{}
	created, err := r.findOrCreate(t.Context(), child{kind: "ConfigMap", desired: page("existing"), current: current}, true)
	if err != nil || created || creations > 0 || current.Name != "existing" {
		t.Errorf("an existing child: created %t with %d requests, read %q: %v", created, creations, current.Name, err)
	}
	created, err = r.findOrCreate(t.Context(), child{kind: "ConfigMap", desired: page("missing"), current: &corev1.ConfigMap{}}, true)
	if err != nil || !created || creations != 1 {
		t.Errorf("a missing child: created %t with %d requests: %v", created, creations, err)
	}
}

// emptyCache is a client with an empty cache.
type emptyCache struct{ client.Client }

func (c emptyCache) Get(ctx context.Context, _ client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return c.Client.Get(ctx, client.ObjectKey{Name: "not-there"}, object, options...)
}
