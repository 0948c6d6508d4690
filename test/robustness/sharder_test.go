package robustness_test

import (
	"context"
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
	// Nobody declares the shard dead before there is a leader, who has to wait for its Lease himself.
	b := usual()
	b.unowned += leaseDuration
	s.judge(b, "a", "b")
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
	s.judge(bounds{unowned: max(syncPeriod, away+leaseDuration) + margin, apart: margin}, "a", "b")
}

// TestAPIServerAway kills the API server under load, and has etcd hang. Nobody loses a Lease by that,
// if it lasts for longer, and no object moves.
func TestAPIServerAway(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Minute
	r := rig.Private(t, options)
	startSharders(t, r, func(s *sharders) { s.lease = lease })
	s := setScene(t, r)
	s.join("a", slow, with(variableLease, lease))
	s.join("b", slow, with(variableLease, lease))
	s.user.work()
	moment()
	s.user.outage.Store(true)
	s.Expect(r.APIServer.Kill()).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.Expect(r.APIServer.Start(ctx)).To(Succeed())
	moment()
	s.Expect(r.Etcd.Pause()).To(Succeed())
	time.Sleep(retryPeriod * 2)
	s.Expect(r.Etcd.Resume()).To(Succeed())
	moment()
	s.user.outage.Store(false)
	moment()
	report := s.judge(usual(), "a", "b")
	s.Expect(report.Figures.Changes).To(HaveLen(2), "nobody but the two that joined came or went")
}
