package moves_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
)

// TestOutdatedObjectIsNotTakenFromLiveShard decides about an object that another client has assigned to a live shard since.
func TestOutdatedObjectIsNotTakenFromLiveShard(t *testing.T) {
	f := setUp(t, "a", "b")
	f.create(t, 1)
	api, err := metadata.NewForConfig(f.Config)
	f.Expect(err).NotTo(HaveOccurred())
	mover := moves.New(moves.Options{
		Metadata: api, Rings: &f.rings, Members: f, ConcurrentMoves: 1, Clock: clock.RealClock{},
		Holders: func(context.Context, string) (map[string]bool, error) { return nil, nil },
		Selects: func(*catalog.Ring, string) bool { return true },
		OnWrite: func(string, schema.GroupResource, assignment.Action, time.Duration) {},
	})
	resource := f.rings.Get(f.name).Resource(schema.GroupResource{Resource: "configmaps"})
	for name := range f.objects(configMapKind) {
		object, err := api.Resource(resource.Resource).Namespace(f.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		f.Expect(err).NotTo(HaveOccurred())
		other := "a"
		if members, _ := f.Ring(""); members.Owner(assignment.Key(configMaps.GroupKind, f.Namespace, name)) == other {
			other = "b"
		}
		label := shardingv1alpha1.LabelShard(f.name)
		f.Expect(f.Client.Patch(t.Context(), &corev1.ConfigMap{ObjectMeta: f.meta(name)}, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"`+label+`":"`+other+`"}}}`)))).To(Succeed())
		f.Expect(mover.ReconcileObject(t.Context(), f.name, resource, object)).To(Succeed())
		f.Expect(f.objects(configMapKind)[name]).To(HaveKeyWithValue(label, other), "the object was taken from a live shard")
	}
}

// TestOwnersAreRescuedBeforeChildren has a shard die, and notes in which order its objects are assigned.
func TestOwnersAreRescuedBeforeChildren(t *testing.T) {
	s := newSimulation()
	var mu sync.Mutex
	assigned := map[string]bool{}
	s.api.patchFails = func(_ context.Context, resource, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if owner, child := strings.CutPrefix(name, "child-of-"); child && !assigned[owner] {
			t.Errorf("%s %s was assigned before its owner", resource, name)
		}
		assigned[name] = true
		return nil
	}
	s.members = ring.New([]string{"a", "b", "c"})
	s.owners(50)
	s.run(t, time.Minute, func() {
		s.setMembers(ring.Members{Shards: []string{"a", "b"}})
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(assigned) == 0 {
			t.Error("nothing was assigned")
		}
	})
}
