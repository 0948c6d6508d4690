package modes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/pkg/shard"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// createMany creates Websites without workload concurrently.
func (s *scenario) createMany(theme string, n int) {
	s.t.Helper()
	const hands = 8
	var group sync.WaitGroup
	for hand := range hands {
		group.Go(func() {
			for i := hand; i < n; i += hands {
				s.create(fmt.Sprintf("%s-%d", theme, i), theme, map[string]string{"skip-workload": "true"})
			}
		})
	}
	group.Wait()
}

// holder returns the holder of a Lease.
func (s *scenario) holder(lease string) string {
	found, err := s.Clientset.CoordinationV1().Leases(s.Namespace).Get(context.Background(), lease, metav1.GetOptions{})
	if err != nil || found.Spec.HolderIdentity == nil {
		return ""
	}
	name, _, _ := strings.Cut(*found.Spec.HolderIdentity, "_")
	return name
}

// victim returns the leader if there is one, or else an instance that owns Websites.
func (s *scenario) victim() *instance {
	s.t.Helper()
	var first *instance
	s.Eventually(func() *instance {
		for _, m := range s.running() {
			if s.mode.election == "" || m.name == s.holder(s.mode.election) {
				first = m
			}
		}
		return first
	}).ShouldNot(BeNil())
	if s.mode.sharded() {
		s.Eventually(s.owners).Should(ContainElement(first.name), "it has Websites")
	}
	return first
}

// waitForEnd waits for an instance to end, and returns its exit error.
func (s *scenario) waitForEnd(m *instance) error {
	s.t.Helper()
	m.endExpected = true
	err := m.Wait(s.timeoutContext())
	s.Expect(errors.Is(err, context.DeadlineExceeded)).To(BeFalse(), "%s does not end", m.name)
	return err
}

// replace starts another instance for one that has ended, after the others have reconciled all Websites.
func (s *scenario) replace() {
	s.t.Helper()
	s.waitForReconciles()
	s.join("")
	s.waitForOwners()
}

// makeBusy changes all Websites, and waits until an instance reconciles one.
func (s *scenario) makeBusy(m *instance) {
	s.t.Helper()
	began := time.Now()
	s.changeTheme(common)
	s.Eventually(func() bool {
		events, err := m.reconciles()
		s.Expect(err).NotTo(HaveOccurred())
		return len(events) > 0 && events[len(events)-1].Time.After(began)
	}).WithPolling(time.Millisecond).Should(BeTrue())
}

// killed: the other instances reconcile the Websites of a killed instance.
func killed(s *scenario) {
	victim := s.victim()
	s.makeBusy(victim)
	victim.endExpected = true
	s.Expect(victim.Kill()).To(Succeed())
	s.replace()
}

// stopped: an instance that is terminated hands its Websites over before it releases its Lease, so the others
// do not wait for the expiry.
func stopped(s *scenario) {
	s.waitForOwners()
	victim := s.victim()
	s.makeBusy(victim)
	s.Expect(victim.Terminate()).To(Succeed())
	s.Expect(s.waitForEnd(victim)).To(Succeed())
	released := uint64(0)
	s.Eventually(func() uint64 {
		for _, event := range s.recordedEvents() {
			if event.Type == history.Leased && event.Lease.Shard == victim.name && event.Lease.Holder == "" {
				released = event.Lease.Version
			}
		}
		return released
	}).ShouldNot(BeZero(), "it releases its Lease")
	if s.mode.sharded() {
		s.expectHandedOver(victim.name, released)
	}
	s.replace()
}

// expectHandedOver checks that a shard owned no objects as of a resourceVersion.
func (s *scenario) expectHandedOver(name string, by uint64) {
	s.t.Helper()
	s.Eventually(func(g Gomega) { // the record is later than the writes
		n, last := 0, map[history.Object]*history.Write{}
		for _, event := range s.recordedEvents() {
			if event.Type != history.Wrote {
				continue
			}
			write := event.Write
			if before := last[write.Object]; before != nil && before.Shard == name && write.Shard != name {
				g.Expect(write.Version).To(BeNumerically("<", by), "%s was left behind", write.Object)
				g.Expect(write.Shard).NotTo(BeEmpty(), "%s was unassigned", write.Object)
				n++
			}
			last[write.Object] = write
		}
		for object, write := range last {
			g.Expect(write.Shard).NotTo(Equal(name), object.String())
		}
		g.Expect(n).To(BeNumerically(">", 0))
	}).Should(Succeed())
}

// paused: the others take over from an instance that is paused for longer than its lease duration, and it ends
// when it is resumed. The history shows that it does not reconcile objects of others then.
func paused(s *scenario) {
	victim := s.victim()
	s.makeBusy(victim)
	s.Expect(victim.Pause()).To(Succeed())
	s.record(history.Paused, victim)
	victim.endExpected = true
	s.waitForReconciles()
	if s.mode.sharded() {
		s.Eventually(s.owners).ShouldNot(ContainElement(victim.name))
	}
	s.record(history.Resumed, victim)
	s.Expect(victim.Resume()).To(Succeed())
	s.Expect(s.waitForEnd(victim)).NotTo(Succeed())
	s.Expect(victim.Tail(20)).To(ContainSubstring(shard.ErrLeaseLost.Error()))
	s.replace()
}

// joined: an additional instance gets its share, or is on standby, without disturbing the others. Then it leaves.
func joined(s *scenario) {
	leader := s.victim()
	m := s.join("")
	s.waitForOwners()
	s.waitForReconciles()
	if s.mode.sharded() {
		s.Expect(s.owners(s)).To(ContainElement(m.name))
	} else {
		s.Expect(s.victim()).To(Equal(leader))
	}
	s.Expect(m.Terminate()).To(Succeed())
	s.Expect(s.waitForEnd(m)).To(Succeed())
	s.waitForOwners()
	s.waitForReconciles()
}

// electionLost: an instance that has lost the election ends with an error. Without an election, paused shows it with
// the instance's own Lease, which no other process takes over while it is renewed.
func electionLost(s *scenario) {
	if s.mode.election == "" {
		return
	}
	s.waitUntilIdle()
	victim := s.victim()
	leases := s.Clientset.CoordinationV1().Leases(s.Namespace)
	s.Eventually(func() error {
		lease, err := leases.Get(context.Background(), s.mode.election, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = new("somebody"), new(int32(1)), new(metav1.NowMicro())
		_, err = leases.Update(context.Background(), lease, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
	s.Expect(s.waitForEnd(victim)).NotTo(Succeed())
	s.Expect(victim.Tail(20)).To(ContainSubstring(shard.ErrLeaseLost.Error()))
	s.replace()
}

// apiServerAway: Websites are reconciled again after an outage of the API server. Instances and sharders that have lost
// their Leases end, and are restarted as a kubelet does.
func apiServerAway(s *scenario) {
	before := s.running()
	s.Expect(s.APIServer.Kill()).To(Succeed())
	s.Expect(s.APIServer.Start(s.timeoutContext())).To(Succeed())
	if s.mode.external {
		s.waitForSharder(time.Now())
	}
	for _, m := range before {
		s.Eventually(func(g Gomega) {
			if !m.Running.Running() {
				m.endExpected = true
				s.t.Logf("%s has ended: %s", m.id, m.Tail(1))
				m = s.launch(m.name)
			}
			g.Expect(m.ready()).To(Succeed())
		}).Should(Succeed())
		s.waitForMembership(m)
	}
	s.waitForReconciles()
	s.waitForOwners()
}

// waitForSharder waits until the sharder has renewed its Lease since a time, and restarts it if it has ended.
func (s *scenario) waitForSharder(since time.Time) {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		if !s.sharder.Running.Running() {
			s.t.Logf("the sharder has ended: %s", s.sharder.Tail(1))
			s.runSharder()
		}
		lease, err := s.Clientset.CoordinationV1().Leases(s.Namespace).Get(context.Background(), "sharder", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(lease.Spec.RenewTime.Time).To(BeTemporally(">", since))
	}).Should(Succeed())
}
