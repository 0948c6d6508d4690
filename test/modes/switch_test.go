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

// TestSharderModeChangesWithoutMoves changes an operator from an external sharder to an in-process sharder and back, and then runs both,
// by restarting the instances with another flag. No object moves.
func TestSharderModeChangesWithoutMoves(t *testing.T) {
	t.Parallel()
	names := []string{"one", "two", "three"}
	s := newScenario(t, external)
	// Long enough for all instances to restart before a Lease expires, also on a busy machine.
	s.lease = time.Minute
	for _, name := range names {
		s.launch(name)
	}
	s.ready()
	s.populate(2 * population)
	s.waitForReconciles()
	s.waitForOwners()
	s.waitForRecord()
	since := len(s.recordedEvents())

	t.Log("To an in-process sharder")
	s.stopSharder()
	s.restartIn(inProcess)
	s.waitForReconciles()
	s.waitForOwners()
	s.expectNoMoves(since)

	t.Log("Back to an external sharder")
	s.restartIn(external)
	s.startSharder()
	s.waitForReconciles()
	s.waitForOwners()
	s.expectNoMoves(since)

	t.Log("New objects are assigned by the same ring")
	s.populate(population)
	s.waitForReconciles()
	s.waitForOwners()
	s.expectNoMoves(since)
	s.checkHistory()

	t.Log("Both sharders")
	s.waitForRecord()
	since, s.lease = len(s.recordedEvents()), leaseDuration
	s.restartIn(inProcess)
	s.waitForReconciles()
	s.waitForOwners()
	s.expectNoMoves(since)
	twoSharders(s)
	// While members change, both sharders can know different members for a moment, which only costs additional moves.
	s.checkHistory(oracle.MovedTwice)
}

// restartIn kills all instances and restarts them in another mode at once.
func (s *scenario) restartIn(m mode) {
	s.t.Helper()
	s.mode = m
	for _, before := range s.running() {
		before.endExpected = true
		s.Expect(before.Kill()).To(Succeed())
		s.launch(before.name)
	}
	s.ready()
}

// expectNoMoves checks that no object was moved or drained since a number of events.
func (s *scenario) expectNoMoves(since int) {
	s.t.Helper()
	owners := map[history.Object]string{}
	for i, event := range s.recordedEvents() {
		if event.Type != history.Wrote {
			continue
		}
		write := event.Write
		if i >= since {
			if before, known := owners[write.Object]; known && before != "" {
				s.Expect(write.Shard).To(Equal(before), "%s has moved at %s", write.Object, event.Time)
			}
			s.Expect(write.Draining).To(BeFalse(), "%s is drained at %s", write.Object, event.Time)
		}
		owners[write.Object] = write.Shard
		if write.Deleted {
			delete(owners, write.Object)
		}
	}
}

// twoSharders: an external and an in-process sharder are active for the same ring. Both report it, and do not undo
// each other's writes.
func twoSharders(s *scenario) {
	s.t.Log("Both report it")
	s.Eventually(s.reasons).Should(ContainElement(shardingv1alpha1.ReasonTwoSharders))
	s.Eventually(s.warned).WithArguments("Lease", s.mode.election).Should(BeTrue())
	s.Eventually(s.warned).WithArguments("ControllerRing", ring).Should(BeTrue())
	s.Expect(s.victim().Tail(1000)).To(ContainSubstring("A ControllerRing of this name exists"))

	s.t.Log("They do not write objects with the right owner")
	s.waitForRecord()
	count := len(s.recordedWrites())
	s.Consistently(func() int { return len(s.recordedWrites()) }, "20s", "1s").Should(Equal(count))

	s.t.Log("The objects of a dead instance are moved once")
	killed(s)
}

// reasons returns the reasons of the ring's conditions that are not true.
func (s *scenario) reasons() []string {
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

// warned reports whether there is a warning event about two sharders.
func (s *scenario) warned(kind, name string) bool {
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
