package robustness_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// TestShards injects faults into shards while the sharder is healthy.
func TestShards(t *testing.T) {
	t.Parallel() // with tests of other control planes, because a sharder serves all rings of one
	startSharders(t, rig.Shared(t))
	for name, test := range map[string]func(*scenario){
		"Killed":       killed,
		"Stopped":      stopped,
		"Hung":         hung,
		"CutOff":       cutOff,
		"CutOffTwin":   cutOffTwin,
		"WatchesLag":   watchesLag,
		"RingVanishes": ringVanishes,
		"LabelsByHand": labelsByHand,

		"KilledAfterWrites":  func(s *scenario) { killedAfterWrites(s, 4) },
		"CutOneWay":          cutOneWay,
		"AnswersLost":        answersLost,
		"RingsOverlap":       ringsOverlap,
		"NamesAtTheirLimits": namesAtTheirLimits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newScenario(t, rig.Shared(t)))
		})
	}
}

// with sets an environment variable of a shard.
func with(variable string, value any) func(*rig.Process) {
	return func(p *rig.Process) { p.Env = append(p.Env, fmt.Sprint(variable, "=", value)) }
}

// withProxy puts a proxy between a shard and the API server.
func withProxy(proxy *faultproxy.Proxy) func(*rig.Process) {
	return func(p *rig.Process) { p.Proxy = proxy }
}

// slow makes reconciles take long enough to be interrupted by faults.
var slow = with(variableWork, time.Second)

// waitForWork waits while a user works before and after a fault.
func waitForWork() { time.Sleep(2 * time.Second) }

// killed kills shards during reconciles. One is restarted with the same name, which must not take long, and the
// other is not. A second process with the name of a live one refuses to start.
func killed(s *scenario) {
	s.join("a")
	b := s.join("b", slow)
	c := s.join("c", slow)
	s.user.start()
	second := s.launch("b")
	s.Expect(s.end(second)).NotTo(Succeed())
	s.Expect(second.Tail(5)).To(ContainSubstring(shard.ErrNameTaken.Error()))
	s.kill(b)
	s.kill(c)
	s.join("b", slow)
	s.checkHistory(afterDeath(), "a", "b")
}

// stopped terminates a shard, among others with wrong clocks. Its objects have a live owner all the time.
func stopped(s *scenario) {
	s.join("a", with(variableClock, -10*time.Minute))
	s.join("b", with(variableClock, time.Hour))
	c := s.join("c", slow, with(variableClock, -24*time.Hour))
	s.user.start()
	time.Sleep(leaseDuration * 3 / 2) // so that a process that relies on these clocks would have acted
	s.Expect(c.Terminate()).To(Succeed())
	s.Expect(s.end(c)).To(Succeed())
	s.checkHistory(withoutDeath(), "a", "b")
}

// hung pauses shards until they have lost all objects, one to another process with its name and one to other shards,
// and resumes them.
func hung(s *scenario) {
	s.join("a")
	b := s.join("b", slow)
	c := s.join("c", slow)
	s.user.start()
	waitForWork()
	s.pause(b)
	s.pause(c)
	s.join("b", slow)
	s.Eventually(func() string { return s.holder("c") }).Should(Equal(shardingv1alpha1.IdentityShardLeaseController))
	s.Eventually(func() int { return s.owned("c") }).Should(BeZero())
	waitForWork()
	for _, sleeper := range []*shardProcess{b, c} {
		s.resume(sleeper)
		s.Expect(s.end(sleeper)).NotTo(Succeed())
		s.Expect(sleeper.Tail(5)).To(ContainSubstring(shard.ErrLeaseLost.Error()))
	}
	waitForWork()
	s.checkHistory(afterDeath(), "a", "b")
}

// cutOff partitions a shard from the API server. It must stop by itself before other shards get its objects.
func cutOff(s *scenario) {
	proxy := s.Proxy(s.t)
	s.join("a")
	s.join("b")
	c := s.join("c", slow, withProxy(proxy))
	s.user.start()
	waitForWork()
	proxy.Cut(faultproxy.Both)
	s.Expect(s.end(c)).NotTo(Succeed())
	s.checkHistory(cut(), "a", "b")
}

// cutOffTwin partitions a shard for less than the lease duration, while another process with its name is started, as for
// a pod that was deleted by force on an unreachable node.
func cutOffTwin(s *scenario) {
	proxy := s.Proxy(s.t)
	s.join("a")
	first := s.join("b", slow, withProxy(proxy))
	s.user.start()
	waitForWork()
	proxy.Cut(faultproxy.Both)
	elsewhere := with("POD_UID", "another pod")
	second := s.launch("b", slow, elsewhere)
	second.endExpected = true // one of the two must end
	first.endExpected = true
	time.Sleep(deadline(leaseDuration) - retryPeriod)
	proxy.Heal()
	time.Sleep(leaseDuration)
	bound := cut()
	if !first.Running.Running() && !second.Running.Running() {
		// The first was too late by a moment, and its last renewal is what the second has seen. The kubelet
		// would start it again.
		s.join("b", slow, elsewhere)
		bound = afterDeath()
	}
	s.checkHistory(bound, "a", "b")
}

// watchesLag delays the watches of a shard while members join and leave.
func watchesLag(s *scenario) {
	proxy := s.Proxy(s.t)
	s.join("a", slow, withProxy(proxy))
	s.join("b")
	s.user.start()
	waitForWork()
	c := s.join("c") // so that objects move when the watches stop
	proxy.HoldWatches()
	s.join("d")
	s.Expect(c.Terminate()).To(Succeed())
	s.Expect(s.end(c)).To(Succeed())
	time.Sleep(5 * time.Second)
	proxy.Heal()
	s.checkHistory(withoutDeath(), "a", "b", "d")
}

// ringVanishes deletes a ring during moves, and creates it again.
func ringVanishes(s *scenario) {
	const away = 3 * time.Second
	s.join("a", slow)
	s.join("b", slow)
	s.user.start()
	waitForWork()
	began := time.Now()
	s.launch("c")
	s.Eventually(func() int { return s.drains(began) }).WithPolling(10 * time.Millisecond).Should(BeNumerically(">", 3))
	s.Expect(s.Client.Delete(s.t.Context(), s.ring)).To(Succeed())
	time.Sleep(away)
	s.declare()
	s.checkHistory(bounds{unowned: away + assignGenerated, apart: followOwner}, "a", "b", "c")
}
