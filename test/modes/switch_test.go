//go:build long

package modes

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
	"github.com/ringmaster-project/ringmaster/test/robustness/oracle"
)

// TestSwitch changes an operator from an external sharder to one in its process and back, and then lets both
// be at work, by starting the same instances again with another flag. Everything stays where it is.
func TestSwitch(t *testing.T) {
	t.Parallel()
	names := []string{"one", "two", "three"}
	s := setStage(t, external)
	// Long enough for all to be back before anybody is missed, also on a machine that is busy.
	s.lease = time.Minute
	for _, name := range names {
		s.launch(name)
	}
	s.ready()
	s.populate(2 * population)
	s.works()
	s.settled()
	s.seenAll()
	since := len(s.seen())

	t.Log("To a sharder in the process")
	s.stopSharder()
	s.again(inProcess)
	s.works()
	s.settled()
	s.stayed(since)

	t.Log("Back to an external sharder")
	s.again(external)
	s.startSharder()
	s.works()
	s.settled()
	s.stayed(since)

	t.Log("An object that is new goes where the others expect it")
	s.populate(population)
	s.works()
	s.settled()
	s.stayed(since)
	s.judge()

	t.Log("Both at once")
	s.seenAll()
	since, s.lease = len(s.seen()), leaseDuration
	s.again(inProcess)
	s.works()
	s.settled()
	s.stayed(since)
	twoSharders(s)
	// Each has its own view of who is a member, and while members change they can differ for a moment. That
	// costs moves, and nothing else.
	s.judge(oracle.MovedTwice)
}

// again kills all instances and starts them again in another mode, at once.
func (s *scene) again(m mode) {
	s.t.Helper()
	s.mode = m
	for _, before := range s.live() {
		before.ends = true
		s.Expect(before.Kill()).To(Succeed())
		s.launch(before.name)
	}
	s.ready()
}

// stayed looks whether any object has changed its shard, or was asked to, since a number of events.
func (s *scene) stayed(since int) {
	s.t.Helper()
	at := map[history.Object]string{}
	for i, event := range s.seen() {
		if event.What != history.Wrote {
			continue
		}
		write := event.Write
		if i >= since {
			if before, known := at[write.Object]; known && before != "" {
				s.Expect(write.Shard).To(Equal(before), "%s has moved at %s", write.Object, event.Time)
			}
			s.Expect(write.Draining).To(BeFalse(), "%s is asked for at %s", write.Object, event.Time)
		}
		at[write.Object] = write.Shard
		if write.Deleted {
			delete(at, write.Object)
		}
	}
}

// twoSharders: an external sharder and one in the process are at work on the same ring. They say so, and do
// not fight.
func twoSharders(s *scene) {
	s.t.Log("Both say so")
	s.Eventually(s.reasons).Should(ContainElement(shardingv1alpha1.ReasonTwoSharders))
	s.Eventually(s.warned).WithArguments("Lease", s.mode.election).Should(BeTrue())
	s.Eventually(s.warned).WithArguments("ControllerRing", ring).Should(BeTrue())
	s.Expect(s.first().Tail(1000)).To(ContainSubstring("A ControllerRing of this name exists"))

	s.t.Log("They leave objects alone that are where they belong")
	s.seenAll()
	count := len(s.written())
	s.Consistently(func() int { return len(s.written()) }, "20s", "1s").Should(Equal(count))

	s.t.Log("A dead instance is missed, and only once")
	killed(s)
}

// reasons are those of the ring's conditions that are as they should not be.
func (s *scene) reasons() []string {
	found := &shardingv1alpha1.ControllerRing{}
	s.Expect(s.Client.Get(context.Background(), client.ObjectKey{Name: ring}, found)).To(Succeed())
	var reasons []string
	for _, condition := range found.Status.Conditions {
		if !meta.IsStatusConditionTrue(found.Status.Conditions, condition.Type) {
			reasons = append(reasons, condition.Reason)
		}
	}
	return reasons
}

// warned tells whether there is an event that warns of two sharders.
func (s *scene) warned(kind, name string) bool {
	list, err := s.Clientset.EventsV1().Events("").List(context.Background(), metav1.ListOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	for i := range list.Items {
		event := &list.Items[i]
		if event.Regarding.Kind == kind && event.Regarding.Name == name &&
			event.Type == corev1.EventTypeWarning && event.Reason == shardingv1alpha1.ReasonTwoSharders {
			return true
		}
	}
	return false
}
