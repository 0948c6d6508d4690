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

// sharderFaults are the parts of TestSharders.
var sharderFaults = map[string]func(*sharders, *scene){
	"Hung":              sharderHung,
	"WatchesLag":        sharderWatchesLag,
	"KilledAfterWrites": sharderKilledAfterWrites,
	"CutToServer":       func(sharders *sharders, s *scene) { sharderCutOneWay(sharders, s, faultproxy.ToServer) },
	"CutToClient":       func(sharders *sharders, s *scene) { sharderCutOneWay(sharders, s, faultproxy.ToClient) },
	"AnswersLost":       sharderAnswersLost,
}

// TestShardIsKilledAfterManyWrites is TestShards/KilledAfterWrites with many more n.
func TestShardIsKilledAfterManyWrites(t *testing.T) {
	t.Parallel()
	r := rig.Private(t, options)
	startSharders(t, r)
	killedAfterWrites(setScene(t, r.For(t)), 20)
}

// sharderKilledAfterWrites kills the leader after its n-th write in the middle of a move, several times, and the next
// leader continues.
func sharderKilledAfterWrites(sharders *sharders, s *scene) {
	const rounds, most = 5, 40
	s.join("a", slow)
	s.join("b", slow)
	s.user.work()
	moment()
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
	// A shard that stops does not hand over a child that its caches do not show yet. It waits for the next leader, and so until the
	// Lease of the last leader has expired.
	s.judge(bounds{unowned: usual().unowned, apart: leaseDuration + followOwner}, "a", "b")
}

// sharderCutOneWay is a leader that can send nothing, or receives nothing, in the middle of a move. It ends, and the
// other replica finishes the move.
func sharderCutOneWay(sharders *sharders, s *scene, direction faultproxy.Direction) {
	s.join("a", slow)
	s.join("b", slow)
	s.user.work()
	moment()
	s.move()
	cut := sharders.loseLeader(func(leader *replica) { leader.proxy.Cut(direction) })
	sharders.ends(cut)
	cut.proxy.Heal()
	sharders.start()
	s.judge(usual(), "a", "b", "c")
}

// sharderAnswersLost are replicas that lose the answers to some of their writes while objects move.
func sharderAnswersLost(sharders *sharders, s *scene) {
	var lost atomic.Int64
	for _, replica := range sharders.replicas {
		s.lose(replica.proxy, time.Second, &lost)
	}
	s.join("a", slow)
	s.join("b", slow)
	s.user.work()
	moment()
	c := s.join("c")
	s.Eventually(func() int { return s.owned("c") }).Should(BeNumerically(">", population/4))
	s.kill(c)
	s.Eventually(func() int { return s.owned("c") }).Should(BeZero())
	s.t.Logf("%d answers were lost", lost.Load())
	s.Expect(lost.Load()).To(BeNumerically(">", 0))
	s.judge(bounds{unowned: usual().unowned, apart: 8 * time.Second}, "a", "b")
}
