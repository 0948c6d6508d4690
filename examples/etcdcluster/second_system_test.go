package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
)

// serveMetrics makes each process of a region's operator serve its metrics.
func serveMetrics(r *region) { r.servesMetrics = true }

// checkSecondSystem creates another system with the same operators and agents, and changes both at the same
// time: each member is restarted once, by its own system.
func (w *fixture) checkSecondSystem(o options) {
	w.t.Helper()
	other := w.addSystem("second", o)
	// The tokens of the second system are far ahead. An operator that mixes them up is refused.
	const ahead = 100_000
	for _, r := range other.regions {
		client, err := agent.NewClient("http://" + r.address)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(client.Delete(w.t.Context(), "nobody", agent.Order{Token: ahead, System: other.cluster, ID: "of the time before"})).To(Succeed())
	}
	both := []*fixture{w, other}
	var disturbed []map[string]int
	var pids []map[string]int64
	for _, each := range both {
		disturbed, pids = append(disturbed, each.restartCounts()), append(pids, each.memberPIDs())
	}
	begin := time.Now()
	for i, r := range w.regions {
		r.edit(setArg("70000"))
		other.regions[i].edit(setArg("80000"))
	}
	for i, each := range both {
		each.awaitSettled()
		names := each.voterNames()
		w.Expect(names).To(HaveLen(len(each.regions)))
		w.Expect(restartedMembers(pids[i], each.memberPIDs())).To(Equal(names))
		w.Expect(each.restartsSince(disturbed[i])).To(Equal(onceEach(names...)))
	}
	w.t.Logf("both changes took %s", time.Since(begin).Round(time.Millisecond))
	w.Expect(w.view().Token).To(BeNumerically("<", ahead))
	w.Expect(other.view().Token).To(BeNumerically(">", ahead))
	w.Expect(w.currentState().Cluster).NotTo(Equal(other.currentState().Cluster))
	for i, r := range w.regions {
		w.Expect(invalidOrders(r.orders())).To(BeEmpty(), r.prefix)
		for _, o := range r.orders() {
			owner := map[string]string{w.cluster: r.prefix, other.cluster: other.regions[i].prefix}[o.System]
			w.Expect(o.Member).To(HavePrefix(owner+"-"), o.Order)
		}
		r.checkMetrics(w.cluster, other.cluster)
	}
	w.Expect(overlappingOrders(w.allOrders())).To(BeEmpty())
}

// checkMetrics checks that an operator has separate metrics for each system.
func (r *region) checkMetrics(systems ...string) {
	r.f.t.Helper()
	answer, err := http.Get("http://" + r.metrics + "/metrics")
	r.f.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	r.f.Expect(err).NotTo(HaveOccurred())
	r.f.Expect(answer.StatusCode).To(Equal(http.StatusOK))
	lines := strings.Split(string(content), "\n")
	for _, system := range systems {
		labels := fmt.Sprintf("instance=%q,system=%q", r.prefix+"-operator", system)
		r.f.Expect(lines).To(ContainElement(HavePrefix("coordination_lock_lost_total{"+labels+"}")), "of %s", system)
	}
}
