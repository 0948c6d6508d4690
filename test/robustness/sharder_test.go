package robustness_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestSharderKilled kills the leader of the sharder's replicas in the middle of a move, and then the
// shard that the objects were moving to.
func TestSharderKilled(t *testing.T) {
	sharders := startSharders(t, rig.Shared(t))
	s := setScene(t, rig.Shared(t))
	s.join("a", slow)
	s.join("b", slow)
	s.user.work()
	moment()
	began := time.Now()
	c := s.launch("c")
	s.Eventually(func() int { return s.drains(began) }).WithPolling(10 * time.Millisecond).Should(BeNumerically(">", 3))
	s.kill(c)
	sharders.killLeader()
	sharders.start()
	// Nobody declares the shard dead before there is a leader. It has seen the shard's last renewal before it led.
	s.judge(usual(), "a", "b")
}

// TestSharderAway has no webhook for a while, and then no sharder at all, while users and shards go on.
func TestSharderAway(t *testing.T) {
	const syncPeriod, away = 10 * time.Second, 3 * time.Second
	sharders := startSharders(t, rig.Shared(t), func(s *sharders) {
		s.config = fmt.Sprintf("controller: {sharder: {syncPeriod: %s}}", syncPeriod)
	})
	s := setScene(t, rig.Shared(t))
	s.join("a")
	s.join("b")
	s.user.work()
	moment()
	// Nobody tells the sharder of what passes it by. It finds that with the next sync.
	sharders.balancer.refuse(true)
	time.Sleep(away)
	sharders.balancer.refuse(false)
	s.user.hold(func() { s.rest(usual(), []string{"a", "b"}) })
	sharders.killAll()
	time.Sleep(away)
	sharders.start()
	sharders.start()
	// The next leader waits for the Lease of the last one, which was killed.
	s.judge(bounds{unowned: max(syncPeriod, away+leaseDuration) + 10*time.Second, apart: followOwner}, "a", "b")
}
