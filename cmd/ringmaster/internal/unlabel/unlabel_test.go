package unlabel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/unlabel"
)

// The tests of the command, in cmd/ringmaster, use a real API server. These tests are for answers that a real one cannot be
// made to give.

var configMaps = unlabel.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true}

const shardLabel = "shard.alpha.sharding.timebertt.dev/ring"

func object(i int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("object-%d", i), ResourceVersion: "1", Labels: map[string]string{shardLabel: "a"}},
	}
}

func newClient(t *testing.T, objects int) *fake.FakeMetadataClient {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var all []runtime.Object
	for i := range objects {
		all = append(all, object(i))
	}
	return fake.NewSimpleMetadataClient(scheme, all...)
}

// TestExpiredListStartsAgain lists from the start when the continue token has expired.
func TestExpiredListStartsAgain(t *testing.T) {
	client := newClient(t, 6)
	lists := 0
	client.PrependReactor("list", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		lists++
		switch lists {
		case 1: // a first page
			page := &metav1.List{ListMeta: metav1.ListMeta{Continue: "more"}}
			for i := range 3 {
				page.Items = append(page.Items, runtime.RawExtension{Object: object(i)})
			}
			return true, page, nil
		case 2:
			return true, nil, apierrors.NewResourceExpired("too old")
		}
		return false, nil, nil // the remaining objects
	})
	count, err := unlabel.Remove(t.Context(), unlabel.Options{Metadata: client, Ring: "ring"}, configMaps)
	if err != nil || count.Found != 6 || count.Done != 6 {
		t.Errorf("found %d, done %d: %v", count.Found, count.Done, err)
	}
}

// TestPermanentConflictFailsOneObject gives up on an object with a conflict at every write, and unlabels the others.
func TestPermanentConflictFailsOneObject(t *testing.T) {
	client := newClient(t, 2)
	attempts := 0
	client.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.(clienttesting.PatchAction).GetName() != "object-1" {
			return false, nil, nil
		}
		attempts++
		return true, nil, apierrors.NewConflict(configMaps.GroupResource(), "object-1", errors.New("the object has been modified"))
	})
	count, err := unlabel.Remove(t.Context(), unlabel.Options{Metadata: client, Ring: "ring"}, configMaps)
	if err == nil || !strings.Contains(err.Error(), "configmaps default/object-1: ") {
		t.Errorf("error %v, want one that names the object", err)
	}
	if count.Found != 2 || count.Done != 1 || attempts < 5 {
		t.Errorf("found %d, done %d, after %d attempts", count.Found, count.Done, attempts)
	}
}
