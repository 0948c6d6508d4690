package robustness_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// killAfter makes a proxy kill a process as soon as the API server has applied its n-th write from now on. The process
// does not receive the response.
func killAfter(proxy *faultproxy.Proxy, n int, kill func()) {
	var writes atomic.Int64
	proxy.AfterWrites(func(faultproxy.Write) bool {
		if writes.Add(1) < int64(n) {
			return true
		}
		kill()
		return false
	})
}

// killedAfterWrites kills a shard after its n-th write, and restarts it with the same name, several times: n is
// counted from its start, or from the start of its handover.
func killedAfterWrites(s *scenario, rounds int) {
	const maxKills = 30
	s.join("a")
	s.join("b")
	s.user.start()
	for round := range rounds {
		n, proxy := 1+s.random.IntN(maxKills), s.Proxy(s.t)
		launched := make(chan *shardProcess, 1)
		victim := sync.OnceValue(func() *shardProcess { return <-launched })
		kill := func() { _ = victim().Kill() }
		if handover := round%2 == 1; handover {
			s.t.Logf("c is killed after write %d of its handover", n)
			c := s.join("c", withProxy(proxy))
			launched <- c
			s.Eventually(func() int { return s.owned("c") }).Should(BeNumerically(">", n))
			killAfter(proxy, n, kill)
			s.Expect(c.Terminate()).To(Succeed())
		} else {
			s.t.Logf("c is killed after write %d", n)
			killAfter(proxy, n, kill)
			launched <- s.launch("c", withProxy(proxy))
		}
		_ = s.end(victim()) // the handover may be complete before
	}
	s.join("c")
	s.checkHistory(bounds{unowned: 10 * time.Second, apart: 8 * time.Second}, "a", "b", "c")
}

// cut returns the bounds when a shard cannot reach the API server: it works until its renew deadline, and others get its
// objects when its Lease has expired.
func cut() bounds {
	return bounds{unowned: expiry - deadline(leaseDuration) + 6*time.Second, apart: followOwner}
}

// cutOneWay partitions two shards from the API server, one in each direction. Both must stop by themselves before other
// shards get their objects. Delayed requests arrive afterwards, and must not change anything.
func cutOneWay(s *scenario) {
	mute, deaf := s.Proxy(s.t), s.Proxy(s.t)
	s.join("a")
	b := s.join("b", slow, withProxy(mute))
	c := s.join("c", slow, withProxy(deaf))
	s.user.start()
	waitForWork()
	mute.Cut(faultproxy.ToServer)
	deaf.Cut(faultproxy.ToClient)
	s.Expect(s.end(b)).NotTo(Succeed())
	s.Expect(s.end(c)).NotTo(Succeed())
	s.Eventually(func() int { return s.owned("b") + s.owned("c") }).Should(BeZero())
	mute.Heal()
	deaf.Heal()
	waitForWork()
	s.checkHistory(cut(), "a")
}

// answersLost drops the responses to some writes of shards, of Leases and objects, although the API server has applied
// them. Objects move to and from these shards meanwhile.
func answersLost(s *scenario) {
	s.join("a")
	var lost atomic.Int64
	lossy := func() func(*rig.Process) {
		proxy := s.Proxy(s.t)
		s.loseAnswers(proxy, 2*time.Second, &lost) // longer than a renewal takes on a busy machine, so that its retry gets a response
		return withProxy(proxy)
	}
	b := s.join("b", lossy())
	s.user.start()
	waitForWork()
	s.join("c", lossy())
	s.Eventually(func() int { return s.owned("c") }).Should(BeNumerically(">", 0))
	waitForWork()
	s.Expect(b.Terminate()).To(Succeed())
	s.Expect(s.end(b)).To(Succeed())
	s.t.Logf("%d responses were dropped", lost.Load())
	s.Expect(lost.Load()).To(BeNumerically(">", 0))
	// A lost response while a shard joins ends the first watches of its caches. It is assigned objects, and reconciles
	// them when the watches have resumed.
	s.checkHistory(bounds{unowned: 8 * time.Second, apart: followOwner}, "a", "c")
}

// loseAnswers drops the responses to a third of the writes at random, and counts them. After each it pauses, because a
// dropped response ends all watches of the process, which resume with a backoff.
func (s *scenario) loseAnswers(proxy *faultproxy.Proxy, pause time.Duration, lost *atomic.Int64) {
	const one = 3
	var mu sync.Mutex
	var last time.Time
	proxy.AfterWrites(func(faultproxy.Write) bool {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < pause || s.random.IntN(one) > 0 {
			return true
		}
		last = time.Now()
		lost.Add(1)
		return false
	})
}

// ringsOverlap has two rings with the same objects, each with its own shards. Both write the same objects, without
// disturbing each other.
func ringsOverlap(s *scenario) {
	const suffix = "-second"
	s.suffixes = []string{"", suffix}
	second := newScenario(s.t, s.Rig, func(other *scenario) {
		other.ringName, other.suffix, other.suffixes = s.ringName+suffix, suffix, s.suffixes
	})
	s.join("a")
	s.join("b")
	second.join("x")
	y := second.join("y")
	second.user.startReferences()
	s.user.start()
	waitForWork()
	// Both rings move objects at the same time.
	s.join("c")
	second.Expect(y.Terminate()).To(Succeed())
	second.Expect(second.end(y)).To(Succeed())
	// To each ring, the children of the other ring are those of an operator that does not use the library: if the call
	// of its webhook times out after 1 s, it finds them with the next sweep, every minute.
	sweep := bounds{unowned: 75 * time.Second, apart: 75 * time.Second}
	s.checkHistory(sweep, "a", "b", "c")
	second.checkHistory(sweep, "x")
}

// namesAtTheirLimits has names of the maximum lengths: 63 characters for rings and shards, which are parts of label
// keys and values, and 253 for objects.
func namesAtTheirLimits(s *scenario) {
	const label, object = 63, 253
	long := func(name string, length int) string { return name + strings.Repeat("x", length-len(name)) }
	limits := newScenario(s.t, s.Rig, func(other *scenario) {
		other.ringName = long(s.ringName, label)
		other.objectName = func(name string) string { return long(name+"-", object) }
	})
	limits.join(long("a", label))
	limits.join(long("b", label))
	limits.user.start()
	waitForWork()
	c := limits.join(long("c", label))
	limits.Eventually(func() int { return limits.owned(c.name) }).Should(BeNumerically(">", 0))
	limits.Expect(c.Terminate()).To(Succeed())
	limits.Expect(limits.end(c)).To(Succeed())
	limits.checkHistory(withoutDeath(), long("a", label), long("b", label))
}
