package robustness_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestSharders is rough with the sharder, while shards are well. A sharder sees to all rings of a cluster, so each part
// has the control plane for itself.
//
//nolint:tparallel // one after the other
func TestSharders(t *testing.T) {
	t.Parallel()
	r := rig.Private(t, options)
	for name, play := range sharderFaults {
		t.Run(name, func(t *testing.T) {
			own := r.For(t)
			play(startSharders(t, own, func(s *sharders) { s.proxied = true }), setScene(t, own))
		})
	}
}

// move starts the shard c and returns when objects are on their way to it.
func (s *scene) move() *member {
	s.t.Helper()
	began := time.Now()
	c := s.launch("c")
	s.Eventually(func() int { return s.drains(began) }).WithPolling(10 * time.Millisecond).Should(BeNumerically(">", 3))
	return c
}

// sharderHung is a leader that hangs in the middle of a move, for longer than its Lease lasts, and wakes up when another
// replica has finished the move and has dealt with the end of a shard. It must not act on what it knew. Requests of users
// wait for its webhook in vain.
func sharderHung(sharders *sharders, s *scene) {
	s.join("a", slow)
	b := s.join("b", slow)
	s.user.work()
	moment()
	s.move()
	hung := sharders.loseLeader(func(leader *replica) {
		sharders.balancer.prefer(leader.Webhook)
		s.Expect(leader.Pause()).To(Succeed())
		s.user.hold(s.user.generate) // the next leader has to assign it
	})
	s.Eventually(func() int { return s.owned("c") }).Should(BeNumerically(">", population/4))
	s.Expect(b.Terminate()).To(Succeed())
	s.Expect(s.end(b)).To(Succeed())
	s.Expect(hung.Resume()).To(Succeed())
	sharders.ends(hung)
	sharders.start()
	s.judge(usual(), "a", "c")
}

// sharderWatchesLag are replicas that hear of nothing for longer than shards' Leases last: all shards look dead to them,
// and are not. One that joins meanwhile is not seen.
func sharderWatchesLag(sharders *sharders, s *scene) {
	const lag = leaseDuration * 3 / 2
	s.join("a", slow)
	s.join("b", slow)
	s.user.work()
	moment()
	for _, replica := range sharders.replicas {
		replica.proxy.HoldWatches()
	}
	s.join("c")
	time.Sleep(lag)
	for _, replica := range sharders.replicas {
		replica.proxy.Heal()
	}
	bound := undisturbed()
	bound.settle = lag + tolerance
	report := s.judge(bound, "a", "b", "c")
	s.Expect(report.Figures.Changes).To(HaveLen(3), fmt.Sprint("nobody but those that joined came or went: ", report.Figures))
}
