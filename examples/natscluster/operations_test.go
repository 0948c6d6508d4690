package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/natscluster/agent"
	"github.com/ringmaster-project/ringmaster/examples/natscluster/operator"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// setLimit makes servers need a restart.
func setLimit(payload string) func(*operator.Spec) {
	return func(spec *operator.Spec) { spec.Config = "max_payload: " + payload }
}

// ordersSince are the servers that something was done to, in order, as "member what". It fails if one was disturbed before the one
// before it was up to date again.
func (w *fixture) ordersSince(since time.Time) (all []string) {
	w.t.Helper()
	down := ""
	for _, event := range w.events(since) {
		if event.Operation == agent.Ready {
			down = ""
			continue
		}
		w.Expect(down).To(BeEmpty(), "%s was disturbed before %s was up to date", event.Member, down)
		if event.Operation != agent.Delete {
			down = event.Member
		}
		all = append(all, event.Member+" "+event.Operation)
	}
	return all
}

// One operator acts for all: every server is restarted once, one at a time, and nothing that was acknowledged is lost.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	w := start(t, coordination.Global)
	c, begun := w.startClient(), time.Now()
	before, meta := w.raftTerms()
	w.editAll(setLimit("2MB"))
	w.awaitSettled()
	after, metaAfter := w.raftTerms()
	t.Logf("%s, %d leader changes of streams, %d of the cluster", time.Since(begun), after-before, metaAfter-meta)
	c.check()
	t.Logf("%d requests, %d failed, %d slow", c.requests, c.failed, c.slow)
	w.Expect(w.ordersSince(begun)).To(ConsistOf("dc1-1 restart", "dc2-1 restart", "dc3-1 restart"))
	view, err := w.readView()
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(view.DoneRecords).To(HaveLen(1), "one action for all")
}

// Incompatible servers are upgraded together: no operator begins before all have accepted the order.
func TestUpgradeTogether(t *testing.T) {
	t.Parallel()
	w := start(t, coordination.Global)
	c, begun := w.startClient(), time.Now()
	w.editAll(func(spec *operator.Spec) { spec.Protocol = "2" })
	w.Eventually(func(g Gomega) {
		events := w.events(begun)
		view, err := w.readView()
		g.Expect(err).NotTo(HaveOccurred())
		if view.Intent != nil && !view.Intent.AllAccepted {
			w.Expect(events).To(BeEmpty(), "not all have accepted the order")
		}
		g.Expect(events).NotTo(BeEmpty())
	}).WithPolling(time.Millisecond).Should(Succeed())
	w.awaitSettled()
	c.check()
	var ended, tasks []string
	for _, event := range w.events(begun) {
		if event.Task == "first" {
			continue // a server that was not restarted
		}
		if event.Operation == agent.Ready {
			w.Expect(ended).To(HaveLen(3), "%s was up to date before all were ended", event.Member)
			continue
		}
		ended, tasks = append(ended, event.Member+" "+event.Operation), append(tasks, event.Task)
	}
	w.Expect(ended).To(ConsistOf("dc1-1 restart", "dc2-1 restart", "dc3-1 restart"))
	w.Expect(tasks).To(HaveEach(tasks[0]))
}

// Every server is replaced by a new one, which joins first and takes over its streams.
func TestReplacement(t *testing.T) {
	t.Parallel()
	w := start(t, coordination.Global)
	c, begun := w.startClient(), time.Now()
	for _, r := range w.regions {
		w.edit(r, func(spec *operator.Spec) { spec.Replace = map[string]string{r.name + "-1": r.name + "-2"} })
	}
	w.awaitSettled()
	t.Logf("%s", time.Since(begun))
	c.check()
	t.Logf("%d requests, %d failed, %d slow", c.requests, c.failed, c.slow)
	w.Expect(w.ordersSince(begun)).To(Equal([]string{
		"dc1-2 start", "dc2-2 start", "dc3-2 start", "dc1-1 delete", "dc2-1 delete", "dc3-1 delete",
	}))
	begun = time.Now()
	w.editAll(setLimit("2MB"))
	w.awaitSettled()
	w.Expect(w.ordersSince(begun)).To(ConsistOf("dc1-2 restart", "dc2-2 restart", "dc3-2 restart"))
}

// An invalid configuration is rolled out to one server only, and a corrected one to all.
func TestBadConfigStopsAtFirst(t *testing.T) {
	t.Parallel()
	w := start(t, coordination.Global)
	c, begun := w.startClient(), time.Now()
	w.editAll(func(spec *operator.Spec) { spec.Config = "no_such_option: 1" })
	w.Eventually(func(g Gomega) {
		view, err := w.readView()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(view.DoneRecords).NotTo(BeEmpty())
		g.Expect(view.DoneRecords[0].Failure).To(ContainSubstring("no_such_option"))
	}).Should(Succeed())
	w.Consistently(func() int { return len(w.events(begun)) }).WithTimeout(3 * quiet).Should(Equal(1))
	w.editAll(setLimit("2MB"))
	w.awaitSettled()
	c.check()
}

// Of two processes of one operator only the newer one works. The older one works again when the newer one has ended.
func TestTwoProcessesOfOneOperator(t *testing.T) {
	t.Parallel()
	w := start(t, coordination.Global)
	c := w.startClient()
	newer := w.startOperator(w.regions[0])
	for _, payload := range []string{"2MB", "3MB"} {
		begun := time.Now()
		w.editAll(setLimit(payload))
		w.awaitSettled()
		w.Expect(w.ordersSince(begun)).To(ConsistOf("dc1-1 restart", "dc2-1 restart", "dc3-1 restart"))
		w.Expect(newer.Kill()).To(Succeed())
	}
	c.check()
}

// The holder of the lock is killed during the plan. Another operator continues, and no server is restarted twice.
func TestOperatorKilledDuringPlan(t *testing.T) {
	t.Parallel()
	w := start(t, coordination.Global)
	c, begun := w.startClient(), time.Now()
	w.editAll(setLimit("2MB"))
	w.Eventually(func() int { return len(w.events(begun)) }).WithPolling(time.Millisecond).ShouldNot(BeZero())
	view, err := w.readView()
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(view.Lock).NotTo(BeNil())
	for _, r := range w.regions {
		if r.name == view.Lock.Prefix {
			w.Expect(r.operators[0].Kill()).To(Succeed())
			w.startOperator(r)
		}
	}
	w.awaitSettled()
	c.check()
	w.Expect(w.ordersSince(begun)).To(ConsistOf("dc1-1 restart", "dc2-1 restart", "dc3-1 restart"))
}
