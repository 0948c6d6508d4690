package robustness_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestSharders injects faults into the sharder while shards are healthy. A sharder serves all rings of a cluster, so the
// subtests do not run in parallel.
//
//nolint:tparallel // one after the other
func TestSharders(t *testing.T) {
	t.Parallel()
	r := rig.Private(t, options)
	for name, test := range sharderFaults {
		t.Run(name, func(t *testing.T) {
			own := r.For(t)
			test(startSharders(t, own, func(s *sharders) { s.proxied = true }), newScenario(t, own))
		})
	}
}

// move starts the shard c and returns when objects are on their way to it.
func (s *scenario) move() *shardProcess {
	s.t.Helper()
	began := time.Now()
	c := s.launch("c")
	s.Eventually(func() int { return s.drains(began) }).WithPolling(10 * time.Millisecond).Should(BeNumerically(">", 3))
	return c
}

// sharderHung pauses the leader during moves for longer than its lease duration, and resumes it when the other replica
// has completed the moves and handled the end of a shard. It must not act on outdated state. Its webhook delays users'
// requests.
func sharderHung(sharders *sharders, s *scenario) {
	s.join("a", slow)
	b := s.join("b", slow)
	s.user.start()
	waitForWork()
	s.move()
	hung := sharders.loseLeader(func(leader *replica) {
		sharders.frontend.prefer(leader.Webhook)
		s.Expect(leader.Pause()).To(Succeed())
		s.user.whilePaused(s.user.createGenerated) // only the next leader can assign it
	})
	s.Eventually(func() int { return s.owned("c") }).Should(BeNumerically(">", population/4))
	s.Expect(b.Terminate()).To(Succeed())
	s.Expect(s.end(b)).To(Succeed())
	s.Expect(hung.Resume()).To(Succeed())
	sharders.waitForEnd(hung)
	sharders.start()
	s.checkHistory(afterDeath(), "a", "c")
}

// sharderWatchesLag delays the watches of all replicas for longer than the shards' lease duration: all live shards look
// dead to them, and they do not observe a shard that joins.
func sharderWatchesLag(sharders *sharders, s *scenario) {
	const lag = leaseDuration * 3 / 2
	s.join("a", slow)
	s.join("b", slow)
	s.user.start()
	waitForWork()
	for _, replica := range sharders.replicas {
		replica.proxy.HoldWatches()
	}
	s.join("c")
	time.Sleep(lag)
	for _, replica := range sharders.replicas {
		replica.proxy.Heal()
	}
	bound := withoutDeath()
	bound.settle = lag + tolerance
	report := s.checkHistory(bound, "a", "b", "c")
	s.Expect(report.Figures.Changes).To(HaveLen(3), fmt.Sprint("nobody but those that joined came or went: ", report.Figures))
}
