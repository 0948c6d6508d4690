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
// does not receive the answer.
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

// killedAfterWrites is a shard that is killed after its n-th write, and restarted under its name, several times: n is
// counted from its start, or from the beginning of its handover.
func killedAfterWrites(s *scene, rounds int) {
	const most = 30
	s.join("a")
	s.join("b")
	s.user.work()
	for round := range rounds {
		n, proxy := 1+s.random.IntN(most), s.Proxy(s.t)
		launched := make(chan *member, 1)
		victim := sync.OnceValue(func() *member { return <-launched })
		kill := func() { _ = victim().Kill() }
		if handover := round%2 == 1; handover {
			s.t.Logf("c is killed after write %d of its handover", n)
			c := s.join("c", through(proxy))
			launched <- c
			s.Eventually(func() int { return s.owned("c") }).Should(BeNumerically(">", n))
			killAfter(proxy, n, kill)
			s.Expect(c.Terminate()).To(Succeed())
		} else {
			s.t.Logf("c is killed after write %d", n)
			killAfter(proxy, n, kill)
			launched <- s.launch("c", through(proxy))
		}
		_ = s.end(victim()) // it may have handed over everything before
	}
	s.join("c")
	s.judge(bounds{unowned: 10 * time.Second, apart: 8 * time.Second}, "a", "b", "c")
}

// cut is what is allowed when a shard cannot reach the API server: it works until its renew deadline, and others get its
// objects when its Lease has expired.
func cut() bounds {
	return bounds{unowned: expiry - deadline(leaseDuration) + 6*time.Second, apart: followOwner}
}

// cutOneWay are shards of which one can send nothing, while it still hears of everything, and one receives nothing,
// while what it sends arrives. Both have to stop by themselves before others get their objects. What was under way
// arrives afterwards, and must do no harm.
func cutOneWay(s *scene) {
	mute, deaf := s.Proxy(s.t), s.Proxy(s.t)
	s.join("a")
	b := s.join("b", slow, through(mute))
	c := s.join("c", slow, through(deaf))
	s.user.work()
	moment()
	mute.Cut(faultproxy.ToServer)
	deaf.Cut(faultproxy.ToClient)
	s.Expect(s.end(b)).NotTo(Succeed())
	s.Expect(s.end(c)).NotTo(Succeed())
	s.Eventually(func() int { return s.owned("b") + s.owned("c") }).Should(BeZero())
	mute.Heal()
	deaf.Heal()
	moment()
	s.judge(cut(), "a")
}

// answersLost are shards that lose the answers to some of their writes, of Leases, objects and handovers, although the
// API server has applied them. Objects move to and from them meanwhile.
func answersLost(s *scene) {
	s.join("a")
	var lost atomic.Int64
	lossy := func() func(*rig.Process) {
		proxy := s.Proxy(s.t)
		s.lose(proxy, 2*time.Second, &lost) // longer than a renewal takes on a busy machine, so that its next try is answered
		return through(proxy)
	}
	b := s.join("b", lossy())
	s.user.work()
	moment()
	s.join("c", lossy())
	s.Eventually(func() int { return s.owned("c") }).Should(BeNumerically(">", 0))
	moment()
	s.Expect(b.Terminate()).To(Succeed())
	s.Expect(s.end(b)).To(Succeed())
	s.t.Logf("%d answers were lost", lost.Load())
	s.Expect(lost.Load()).To(BeNumerically(">", 0))
	// A loss while a shard joins ends the first watches of its caches. It gets objects, and works on them when the
	// watches are back.
	s.judge(bounds{unowned: 8 * time.Second, apart: followOwner}, "a", "c")
}

// lose loses the answers to a third of the writes at random, and counts them. After each it loses none for some time: a
// loss ends all watches of the process, which come back with a backoff.
func (s *scene) lose(proxy *faultproxy.Proxy, pause time.Duration, lost *atomic.Int64) {
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

// ringsOverlap are two rings that have the same objects, each with shards of its own. Both write the same objects, and
// neither may disturb the other.
func ringsOverlap(s *scene) {
	const suffix = "-second"
	s.suffixes = []string{"", suffix}
	second := setScene(s.t, s.Rig, func(other *scene) {
		other.ringName, other.suffix, other.suffixes = s.ringName+suffix, suffix, s.suffixes
	})
	s.join("a")
	s.join("b")
	second.join("x")
	y := second.join("y")
	second.user.startReferences()
	s.user.work()
	moment()
	// Both rings move objects at the same time.
	s.join("c")
	second.Expect(y.Terminate()).To(Succeed())
	second.Expect(second.end(y)).To(Succeed())
	// To each ring the other's children are those of an operator that does not use the library: when API servers give up
	// the call of its webhook, which they do after 1 s, it finds them with the next sweep, every minute.
	sweep := bounds{unowned: 75 * time.Second, apart: 75 * time.Second}
	s.judge(sweep, "a", "b", "c")
	second.judge(sweep, "x")
}

// namesAtTheirLimits has the longest names that are allowed: 63 characters for rings and shards, which are parts of
// label keys and values, and 253 for objects.
func namesAtTheirLimits(s *scene) {
	const label, object = 63, 253
	long := func(name string, length int) string { return name + strings.Repeat("x", length-len(name)) }
	limits := setScene(s.t, s.Rig, func(other *scene) {
		other.ringName = long(s.ringName, label)
		other.objectName = func(name string) string { return long(name+"-", object) }
	})
	limits.join(long("a", label))
	limits.join(long("b", label))
	limits.user.work()
	moment()
	c := limits.join(long("c", label))
	limits.Eventually(func() int { return limits.owned(c.name) }).Should(BeNumerically(">", 0))
	limits.Expect(c.Terminate()).To(Succeed())
	limits.Expect(limits.end(c)).To(Succeed())
	limits.judge(undisturbed(), long("a", label), long("b", label))
}
