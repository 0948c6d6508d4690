package robustness_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestSharderKilled kills the leader of the sharder during moves, and then the shard to which the objects
// move.
func TestSharderKilled(t *testing.T) {
	sharders := startSharders(t, rig.Shared(t))
	s := newScenario(t, rig.Shared(t))
	s.join("a", slow)
	s.join("b", slow)
	s.user.start()
	waitForWork()
	began := time.Now()
	c := s.launch("c")
	s.Eventually(func() int { return s.drains(began) }).WithPolling(10 * time.Millisecond).Should(BeNumerically(">", 3))
	s.kill(c)
	sharders.killLeader()
	sharders.start()
	// Only a leader declares the shard dead. It has observed the shard's last renewal before it led.
	s.checkHistory(afterDeath(), "a", "b")
}

// TestShardsContinueWithoutSharder has no webhook for a while, and then no sharder, while users and shards continue.
func TestShardsContinueWithoutSharder(t *testing.T) {
	const syncPeriod, away = 10 * time.Second, 3 * time.Second
	sharders := startSharders(t, rig.Shared(t), func(s *sharders) {
		s.config = fmt.Sprintf("controller: {sharder: {syncPeriod: %s}}", syncPeriod)
	})
	s := newScenario(t, rig.Shared(t))
	s.join("a")
	s.join("b")
	s.user.start()
	waitForWork()
	// The sharder finds objects that passed without the webhook with the next rescue or resync.
	sharders.frontend.refuse(true)
	time.Sleep(away)
	sharders.frontend.refuse(false)
	s.user.whilePaused(func() { s.waitUntilIdle(afterDeath(), []string{"a", "b"}) })
	sharders.killAll()
	time.Sleep(away)
	sharders.start()
	sharders.start()
	// The next leader waits for the expiry of the Lease of the previous one, which was killed.
	s.checkHistory(bounds{unowned: max(syncPeriod, away+leaseDuration) + 10*time.Second, apart: followOwner}, "a", "b")
}
