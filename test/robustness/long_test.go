//go:build long

package robustness_test

import (
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// sharderFaults are the subtests of TestSharders.
var sharderFaults = map[string]func(*sharders, *scenario){
	"Hung":              sharderHung,
	"WatchesLag":        sharderWatchesLag,
	"KilledAfterWrites": sharderKilledAfterWrites,
	"CutToServer":       func(sharders *sharders, s *scenario) { sharderCutOneWay(sharders, s, faultproxy.ToServer) },
	"CutToClient":       func(sharders *sharders, s *scenario) { sharderCutOneWay(sharders, s, faultproxy.ToClient) },
	"AnswersLost":       sharderAnswersLost,
}

// TestShardIsKilledAfterManyWrites is TestShards/KilledAfterWrites with more rounds.
func TestShardIsKilledAfterManyWrites(t *testing.T) {
	t.Parallel()
	r := rig.Private(t, options)
	startSharders(t, r)
	killedAfterWrites(newScenario(t, r.For(t)), 20)
}

// sharderKilledAfterWrites kills the leader after its n-th write during moves, several times, and the next leader
// continues.
func sharderKilledAfterWrites(sharders *sharders, s *scenario) {
	const rounds, most = 5, 40
	s.join("a", slow)
	s.join("b", slow)
	s.user.start()
	waitForWork()
	for range rounds {
		n := 1 + s.random.IntN(most)
		s.t.Logf("the leader is killed after write %d", n)
		sharders.loseLeader(func(leader *replica) {
			killAfter(leader.proxy, n, func() { _ = leader.Kill() })
			c := s.join("c")
			<-leader.Done()
			s.Expect(c.Terminate()).To(Succeed())
			s.Expect(s.end(c)).To(Succeed())
		})
		sharders.start()
	}
	// A stopping shard does not hand over a child that its caches do not show yet. The next leader moves the child, after the
	// Lease of the previous leader has expired.
	s.checkHistory(bounds{unowned: afterDeath().unowned, apart: leaseDuration + followOwner}, "a", "b")
}

// sharderCutOneWay partitions the leader in one direction during moves. It ends, and the other replica completes them.
func sharderCutOneWay(sharders *sharders, s *scenario, direction faultproxy.Direction) {
	s.join("a", slow)
	s.join("b", slow)
	s.user.start()
	waitForWork()
	s.move()
	cut := sharders.loseLeader(func(leader *replica) { leader.proxy.Cut(direction) })
	sharders.waitForEnd(cut)
	cut.proxy.Heal()
	sharders.start()
	s.checkHistory(afterDeath(), "a", "b", "c")
}

// sharderAnswersLost drops the responses to some writes of the replicas while objects move.
func sharderAnswersLost(sharders *sharders, s *scenario) {
	var lost atomic.Int64
	for _, replica := range sharders.replicas {
		s.loseAnswers(replica.proxy, time.Second, &lost)
	}
	s.join("a", slow)
	s.join("b", slow)
	s.user.start()
	waitForWork()
	c := s.join("c")
	s.Eventually(func() int { return s.owned("c") }).Should(BeNumerically(">", population/4))
	s.kill(c)
	s.Eventually(func() int { return s.owned("c") }).Should(BeZero())
	s.t.Logf("%d responses were dropped", lost.Load())
	s.Expect(lost.Load()).To(BeNumerically(">", 0))
	s.checkHistory(bounds{unowned: afterDeath().unowned, apart: 8 * time.Second}, "a", "b")
}
