package sharder_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// fill creates n ConfigMaps with some content concurrently.
func (f *fixture) fill(n int) {
	f.t.Helper()
	const hands = 16
	var group sync.WaitGroup
	errs := make([]error, n)
	for hand := range hands {
		group.Go(func() {
			for i := hand; i < n; i += hands {
				errs[i] = f.Client.Create(context.Background(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: fmt.Sprintf("object-%d", i)},
					Data:       map[string]string{"number": strconv.Itoa(i)},
				})
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		f.Expect(err).NotTo(HaveOccurred())
	}
}

// unassigned counts the ConfigMaps without a shard label, without reading the others.
func (f *fixture) unassigned() int {
	selector, err := labels.Parse("!" + shardingv1alpha1.LabelShard(f.ring.Name))
	f.Expect(err).NotTo(HaveOccurred())
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	f.Expect(f.Client.List(context.Background(), list, client.InNamespace(f.Namespace), client.MatchingLabelsSelector{Selector: selector})).To(Succeed())
	return len(list.Items)
}

// TestReplicaStopsSoonDuringMoves and the next replica completes them.
func TestReplicaStopsSoonDuringMoves(t *testing.T) {
	const n = 2000
	f := setUp(t)
	f.fill(n) // before a sharder runs
	f.join("a", 0)
	f.join("b", 0)
	first := f.run(rig.SharderOptions{
		Name: "sharder-0", Roles: []string{ringRole}, Config: "controller: {sharder: {concurrentMoves: 4}}",
		Env: []string{"GORACE=atexit_sleep_ms=0"}, // the race detector would wait for a second
	})
	f.Eventually(f.unassigned, testTimeout, "100ms").Should(BeNumerically("<", n-50))

	began := time.Now()
	f.Expect(first.Terminate()).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	f.Expect(first.Wait(ctx)).To(Succeed(), "it exits with 0")
	took := time.Since(began)
	left := f.unassigned()
	t.Logf("It ended after %s, with %d of %d objects left to assign", took, left, n)
	f.Expect(took).To(BeNumerically("<", 5*time.Second), "most of it is the webhook server, which waits for open connections")
	f.Expect(left).To(BeNumerically(">", 0), "no move was in progress")

	f.start("sharder-1", ringRole)
	f.Eventually(f.unassigned, testTimeout, "500ms").Should(BeZero())
	f.ownedBy(n, "a", "b")
	list := &corev1.ConfigMapList{}
	f.Expect(f.Client.List(t.Context(), list, client.InNamespace(f.Namespace), client.HasLabels{shardingv1alpha1.LabelShard(f.ring.Name)})).To(Succeed())
	for i := range list.Items {
		object := &list.Items[i]
		f.Expect("object-" + object.Data["number"]).To(Equal(object.Name))
	}
}
