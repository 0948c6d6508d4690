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
	created, err := r.findOrCreate(t.Context(), child{kind: "ConfigMap", desired: own(), current: &corev1.ConfigMap{}})
	if err != nil || !created {
		t.Errorf("created %t: %v", created, err)
	}
}

// emptyCache is a client with an empty cache.
type emptyCache struct{ client.Client }

func (c emptyCache) Get(ctx context.Context, _ client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return c.Client.Get(ctx, client.ObjectKey{Name: "not-there"}, object, options...)
}
