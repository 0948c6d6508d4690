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

// createMany makes Websites without workload, by several hands.
func (s *scene) createMany(of string, n int) {
	s.t.Helper()
	const hands = 8
	var group sync.WaitGroup
	for hand := range hands {
		group.Go(func() {
			for i := hand; i < n; i += hands {
				s.create(fmt.Sprintf("%s-%d", of, i), of, map[string]string{"skip-workload": "true"})
			}
		})
	}
	group.Wait()
}

// holder is who has a Lease.
func (s *scene) holder(lease string) string {
	found, err := s.Clientset.CoordinationV1().Leases(s.Namespace).Get(context.Background(), lease, metav1.GetOptions{})
	if err != nil || found.Spec.HolderIdentity == nil {
		return ""
	}
	name, _, _ := strings.Cut(*found.Spec.HolderIdentity, "_")
	return name
}

// first is the instance that the others can spare least: the leader, if there is one.
func (s *scene) first() *instance {
	s.t.Helper()
	var first *instance
	s.Eventually(func() *instance {
		for _, m := range s.live() {
			if s.mode.election == "" || m.name == s.holder(s.mode.election) {
				first = m
			}
		}
		return first
	}).ShouldNot(BeNil())
	if s.mode.spread() {
		s.Eventually(s.owners).Should(ContainElement(first.name), "it has Websites")
	}
	return first
}

// ended waits for the end of an instance.
func (s *scene) ended(m *instance) error {
	s.t.Helper()
	m.ends = true
	err := m.Wait(s.limited())
	s.Expect(errors.Is(err, context.DeadlineExceeded)).To(BeFalse(), "%s does not end", m.name)
	return err
}

// replaced lets another instance take the place of one that has ended, after the rest has shown that it
// does without.
func (s *scene) replaced() {
	s.t.Helper()
	s.works()
	s.join("")
	s.settled()
}

// busy gives all something to do, and waits until an instance is in the middle of it.
func (s *scene) busy(m *instance) {
	s.t.Helper()
	began := time.Now()
	s.paint(common)
	s.Eventually(func() bool {
		events, err := m.reconciles()
		s.Expect(err).NotTo(HaveOccurred())
		return len(events) > 0 && events[len(events)-1].Time.After(began)
	}).WithPolling(time.Millisecond).Should(BeTrue())
}

// killed: the others work on the Websites of an instance that is no more.
func killed(s *scene) {
	victim := s.first()
	s.busy(victim)
	victim.ends = true
	s.Expect(victim.Kill()).To(Succeed())
	s.replaced()
}

// stopped: an instance that is asked to end gives all that it has to the others before it gives up its
// Lease. They need not wait for it.
func stopped(s *scene) {
	s.settled()
	victim := s.first()
	s.busy(victim)
	s.Expect(victim.Terminate()).To(Succeed())
	s.Expect(s.ended(victim)).To(Succeed())
	released := uint64(0)
	s.Eventually(func() uint64 {
		for _, event := range s.seen() {
			if event.What == history.Leased && event.Lease.Shard == victim.name && event.Lease.Holder == "" {
				released = event.Lease.Version
			}
		}
		return released
	}).ShouldNot(BeZero(), "it releases its Lease")
	if s.mode.spread() {
		s.handedOver(victim.name, released)
	}
	s.replaced()
}

// handedOver looks whether all objects had left a shard by a version.
func (s *scene) handedOver(name string, by uint64) {
	s.t.Helper()
	s.Eventually(func(g Gomega) { // what is written is seen later
		n, last := 0, map[history.Object]*history.Write{}
		for _, event := range s.seen() {
			if event.What != history.Wrote {
				continue
			}
			write := event.Write
			if before := last[write.Object]; before != nil && before.Shard == name && write.Shard != name {
				g.Expect(write.Version).To(BeNumerically("<", by), "%s was left behind", write.Object)
				g.Expect(write.Shard).NotTo(BeEmpty(), "%s was given to nobody", write.Object)
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

// paused: an instance that hangs for longer than its Lease lasts is done without, and ends when it wakes up.
// That it does nothing then to what others have by now, the history tells.
func paused(s *scene) {
	victim := s.first()
	s.busy(victim)
	s.Expect(victim.Pause()).To(Succeed())
	s.record(history.Paused, victim)
	victim.ends = true
	s.works()
	if s.mode.spread() {
		s.Eventually(s.owners).ShouldNot(ContainElement(victim.name))
	}
	s.record(history.Resumed, victim)
	s.Expect(victim.Resume()).To(Succeed())
	s.Expect(s.ended(victim)).NotTo(Succeed())
	s.Expect(victim.Tail(20)).To(ContainSubstring(shard.ErrLeaseLost.Error()))
	s.replaced()
}

// joined: an instance more takes its share if there are any, and nothing is disturbed. Then it leaves.
func joined(s *scene) {
	leader := s.first()
	m := s.join("")
	s.settled()
	s.works()
	if s.mode.spread() {
		s.Expect(s.owners(s)).To(ContainElement(m.name))
	} else {
		s.Expect(s.first()).To(Equal(leader))
	}
	s.Expect(m.Terminate()).To(Succeed())
	s.Expect(s.ended(m)).To(Succeed())
	s.settled()
	s.works()
}

// electionLost: an instance that is no longer the elected one ends, and says why. Where there is no election,
// paused has shown it with the instance's own Lease: nobody takes that from one that keeps it.
func electionLost(s *scene) {
	if s.mode.election == "" {
		return
	}
	s.resting()
	victim := s.first()
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
	s.Expect(s.ended(victim)).NotTo(Succeed())
	s.Expect(victim.Tail(20)).To(ContainSubstring(shard.ErrLeaseLost.Error()))
	s.replaced()
}

// apiServerAway: work goes on when the API server is back. An instance that has lost its Lease by then ends,
// as does the sharder, and is started again as a kubelet does it.
func apiServerAway(s *scene) {
	before := s.live()
	s.Expect(s.APIServer.Kill()).To(Succeed())
	s.Expect(s.APIServer.Start(s.limited())).To(Succeed())
	if s.mode.external {
		s.sharderGoesOn(time.Now())
	}
	for _, m := range before {
		s.Eventually(func(g Gomega) {
			if !m.Running.Running() {
				m.ends = true
				s.t.Logf("%s has ended: %s", m.id, m.Tail(1))
				m = s.launch(m.name)
			}
			g.Expect(m.ready()).To(Succeed())
		}).Should(Succeed())
		s.takesPart(m)
	}
	s.works()
	s.settled()
}

// sharderGoesOn waits until the sharder has its Lease since a moment, and starts it again if it has ended.
func (s *scene) sharderGoesOn(since time.Time) {
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
