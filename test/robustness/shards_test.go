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

// TestShards is rough with shards, while the sharder is well.
func TestShards(t *testing.T) {
	t.Parallel() // with what has a control plane of its own: a sharder cares for all rings that there are
	startSharders(t, rig.Shared(t))
	for name, play := range map[string]func(*scene){
		"Killed":       killed,
		"Stopped":      stopped,
		"Hung":         hung,
		"CutOff":       cutOff,
		"CutOffTwin":   cutOffTwin,
		"WatchesLag":   watchesLag,
		"RingVanishes": ringVanishes,
		"LabelsByHand": labelsByHand,

		"KilledAfterWrites":  func(s *scene) { killedAfterWrites(s, 4) },
		"CutOneWay":          cutOneWay,
		"AnswersLost":        answersLost,
		"RingsOverlap":       ringsOverlap,
		"NamesAtTheirLimits": namesAtTheirLimits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(setScene(t, rig.Shared(t)))
		})
	}
}

// with sets a variable of a shard.
func with(variable string, value any) func(*rig.Process) {
	return func(p *rig.Process) { p.Env = append(p.Env, fmt.Sprint(variable, "=", value)) }
}

// through puts a bad network between a shard and the API server.
func through(proxy *faultproxy.Proxy) func(*rig.Process) {
	return func(p *rig.Process) { p.Proxy = proxy }
}

// slow makes reconciles take long enough to be hit by whatever happens.
var slow = with(variableWork, time.Second)

// moment is for which a user works before and after something happens.
func moment() { time.Sleep(2 * time.Second) }

// killed are shards that are killed in the middle of their work. One comes back under its name, which
// must not take long, the other does not. A process that has the name of a live one refuses to start.
func killed(s *scene) {
	s.join("a")
	b := s.join("b", slow)
	c := s.join("c", slow)
	s.user.work()
	second := s.launch("b")
	s.Expect(s.end(second)).NotTo(Succeed())
	s.Expect(second.Tail(5)).To(ContainSubstring(shard.ErrNameTaken.Error()))
	s.kill(b)
	s.kill(c)
	s.join("b", slow)
	s.judge(usual(), "a", "b")
}

// stopped is a shard that is asked to end, among others whose clocks are off. Its objects have an
// owner all the time.
func stopped(s *scene) {
	s.join("a", with(variableClock, -10*time.Minute))
	s.join("b", with(variableClock, time.Hour))
	c := s.join("c", slow, with(variableClock, -24*time.Hour))
	s.user.work()
	time.Sleep(leaseDuration * 3 / 2) // so that somebody who believed these clocks would have acted
	s.Expect(c.Terminate()).To(Succeed())
	s.Expect(s.end(c)).To(Succeed())
	s.judge(undisturbed(), "a", "b")
}

// hung are shards that hang until they have lost everything, one to another process with its name and
// one to the others, and wake up.
func hung(s *scene) {
	s.join("a")
	b := s.join("b", slow)
	c := s.join("c", slow)
	s.user.work()
	moment()
	s.pause(b)
	s.pause(c)
	s.join("b", slow)
	s.Eventually(func() string { return s.holder("c") }).Should(Equal(shardingv1alpha1.IdentityShardLeaseController))
	s.Eventually(func() int { return s.owned("c") }).Should(BeZero())
	moment()
	for _, sleeper := range []*member{b, c} {
		s.resume(sleeper)
		s.Expect(s.end(sleeper)).NotTo(Succeed())
		s.Expect(sleeper.Tail(5)).To(ContainSubstring(shard.ErrLeaseLost.Error()))
	}
	moment()
	s.judge(usual(), "a", "b")
}

// cutOff is a shard whose network ends. It has to stop by itself before others have its objects.
func cutOff(s *scene) {
	proxy := s.Proxy(s.t)
	s.join("a")
	s.join("b")
	c := s.join("c", slow, through(proxy))
	s.user.work()
	moment()
	proxy.Cut(faultproxy.Both)
	s.Expect(s.end(c)).NotTo(Succeed())
	s.judge(cut(), "a", "b")
}

// cutOffTwin is a shard whose network ends for less than its Lease lasts, while another process with
// its name is started, as with a pod that was deleted by force on a node that cannot be reached.
func cutOffTwin(s *scene) {
	proxy := s.Proxy(s.t)
	s.join("a")
	first := s.join("b", slow, through(proxy))
	s.user.work()
	moment()
	proxy.Cut(faultproxy.Both)
	elsewhere := with("POD_UID", "another pod")
	second := s.launch("b", slow, elsewhere)
	second.ends = true // one of the two has to
	first.ends = true
	time.Sleep(deadline(leaseDuration) - retryPeriod)
	proxy.Heal()
	time.Sleep(leaseDuration)
	bound := cut()
	if !first.Running.Running() && !second.Running.Running() {
		// The first was too late by a moment, and its last renewal is what the second has seen. The kubelet
		// would start it again.
		s.join("b", slow, elsewhere)
		bound = usual()
	}
	s.judge(bound, "a", "b")
}

// watchesLag is a shard that hears late of everything while members come and go.
func watchesLag(s *scene) {
	proxy := s.Proxy(s.t)
	s.join("a", slow, through(proxy))
	s.join("b")
	s.user.work()
	moment()
	c := s.join("c") // so that objects are on their way when the watches stop
	proxy.HoldWatches()
	s.join("d")
	s.Expect(c.Terminate()).To(Succeed())
	s.Expect(s.end(c)).To(Succeed())
	time.Sleep(5 * time.Second)
	proxy.Heal()
	s.judge(undisturbed(), "a", "b", "d")
}

// ringVanishes is a ring that is deleted in the middle of a move, and comes back.
func ringVanishes(s *scene) {
	const away = 3 * time.Second
	s.join("a", slow)
	s.join("b", slow)
	s.user.work()
	moment()
	began := time.Now()
	s.launch("c")
	s.Eventually(func() int { return s.drains(began) }).WithPolling(10 * time.Millisecond).Should(BeNumerically(">", 3))
	s.Expect(s.Client.Delete(s.t.Context(), s.ring)).To(Succeed())
	time.Sleep(away)
	s.declare()
	s.judge(bounds{unowned: away + assignGenerated, apart: followOwner}, "a", "b", "c")
}
