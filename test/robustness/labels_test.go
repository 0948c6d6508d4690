package robustness_test

import (
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// labelsByHand has another client change labels. Two shards reconcile such an object until they observe the change;
// in the end, and for all other objects, all promises hold.
func labelsByHand(s *scenario) {
	s.join("a")
	s.join("b")
	s.join("c")
	objects := s.objectsToRelabel()
	s.user.start()
	for range 60 {
		s.changeLabel(objects[s.random.IntN(len(objects))])
		time.Sleep(50 * time.Millisecond)
	}
	// A resync corrects the labels. A change of the spec causes one.
	content := []byte(`{"spec":{"drain":{"timeout":"1h"}}}`)
	s.Expect(s.Client.Patch(s.t.Context(), s.ring, client.RawPatch("application/merge-patch+json", content))).To(Succeed())
	s.checkHistory(afterDeath(), "a", "b", "c")
}

// objectsToRelabel creates the objects whose labels are changed.
func (s *scenario) objectsToRelabel() []*corev1.ConfigMap {
	s.t.Helper()
	const n = 10
	objects := make([]*corev1.ConfigMap, n)
	for i := range objects {
		objects[i] = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprint("toy-", i)},
			Data:       map[string]string{"number": "0"},
		}
		for _, kind := range []string{"ConfigMap", "Secret"} {
			s.byHand[history.Object{Kind: kind, Namespace: s.Namespace, Name: objects[i].Name}] = true
		}
		s.Expect(s.Client.Create(s.t.Context(), objects[i])).To(Succeed())
	}
	return objects
}

// changeLabel sets or removes a random label of an object.
func (s *scenario) changeLabel(object *corev1.ConfigMap) {
	s.t.Helper()
	shard, drain := shardingv1alpha1.LabelShard(s.ring.Name), shardingv1alpha1.LabelDrain(s.ring.Name)
	changes := []string{
		fmt.Sprintf(`{%q:"a"}`, shard), fmt.Sprintf(`{%q:"b"}`, shard), fmt.Sprintf(`{%q:"c"}`, shard),
		fmt.Sprintf(`{%q:"nobody"}`, shard), fmt.Sprintf(`{%q:null}`, shard),
		fmt.Sprintf(`{%q:"a"}`, drain), fmt.Sprintf(`{%q:"nobody"}`, drain), fmt.Sprintf(`{%q:"true"}`, drain),
		fmt.Sprintf(`{%q:null}`, drain),
	}
	content := []byte(`{"metadata":{"labels":` + changes[s.random.IntN(len(changes))] + `}}`)
	s.Expect(s.Client.Patch(s.t.Context(), object, client.RawPatch("application/merge-patch+json", content))).To(Succeed())
}
