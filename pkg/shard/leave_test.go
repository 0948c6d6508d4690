package shard_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

// TestLeavingShardsDoNotHandOverToEachOther stops two shards two seconds apart, while both reconcile objects whose next owner
// would be the other one if it stayed. The third shard gets all of them.
func TestLeavingShardsDoNotHandOverToEachOther(t *testing.T) {
	const each = 5 // as many as the operator reconciles at the same time
	f := setUp(t)
	f.peer("stays", "stays", nil)
	end := filepath.Join(rig.TempDir(t), "end")
	owners := f.recordOwners()
	others := map[string]string{"a": "b", "b": "a"}
	running, objects := map[string]*rig.Running{}, map[string][]string{}
	for leaver, other := range others {
		running[leaver] = f.operate(leaver, "GRACE=30s")
		next := ring.New([]string{other, "stays"})
		for i := 0; len(objects[leaver]) < each; i++ {
			name := fmt.Sprintf("of-%s-%d", leaver, i)
			if next.Owner(assignment.Key(schema.GroupKind{Kind: "ConfigMap"}, f.Namespace, name)) == other {
				f.configMap(name, leaver, "until "+end)
				objects[leaver] = append(objects[leaver], name)
			}
		}
	}
	for leaver, names := range objects {
		for _, name := range names {
			f.expectOutput(running[leaver], "began "+name+"\n")
		}
	}

	// No reconcile holds it up, so the first shard to leave has a view of its peers from before the other one leaves.
	idle := f.configMap("idle", "a")
	leaving := func(name string) {
		f.Expect(running[name].Terminate()).To(Succeed())
		f.Eventually(func() map[string]string { return f.lease(name).Annotations }).Should(HaveKey(shardingv1alpha1.AnnotationLeaving))
	}
	leaving("a")
	f.Eventually(func() string { return f.labels(idle)[ours] }).ShouldNot(Equal("a"))
	time.Sleep(2 * time.Second)
	leaving("b")
	time.Sleep(2 * time.Second) // views of the peers are reused for a second
	f.Expect(os.WriteFile(end, nil, 0o600)).To(Succeed())
	for _, p := range running {
		_, err := f.end(p)
		f.Expect(err).NotTo(HaveOccurred())
	}
	for leaver, names := range objects {
		for _, name := range names {
			f.Eventually(func() []string { return owners(name) }).WithTimeout(10*time.Second).Should(Equal([]string{leaver, "stays"}), name)
		}
	}
}

// recordOwners watches ConfigMaps, and returns a function that returns the owners that one has had.
func (f *fixture) recordOwners() func(name string) []string {
	f.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	watched, err := f.Clientset.CoreV1().ConfigMaps(f.Namespace).Watch(ctx, metav1.ListOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	var (
		mu     sync.Mutex
		owners = map[string][]string{}
		done   sync.WaitGroup
	)
	done.Go(func() {
		for event := range watched.ResultChan() {
			object, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				continue
			}
			mu.Lock()
			if had := owners[object.Name]; len(had) == 0 || had[len(had)-1] != object.Labels[ours] {
				owners[object.Name] = append(had, object.Labels[ours])
			}
			mu.Unlock()
		}
	})
	f.t.Cleanup(func() {
		stop()
		done.Wait()
	})
	return func(name string) []string {
		mu.Lock()
		defer mu.Unlock()
		return owners[name]
	}
}
