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

// measured gives each process of a region's operator an address for its metrics.
func measured(r *region) { r.measured = true }

// checkBeside makes another system with the same operators and agents, and rolls out both at the same time: each member is restarted
// once, by its own system.
func (w *world) checkBeside(o options) {
	w.t.Helper()
	other := w.beside("second", o)
	// The tokens of one are far ahead of those of the other. An operator that mixes them up is refused.
	const ahead = 100_000
	for _, r := range other.regions {
		client, err := agent.NewClient("http://" + r.address)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(client.Delete(w.t.Context(), "nobody", agent.Order{Token: ahead, System: other.cluster, ID: "of the time before"})).To(Succeed())
	}
	both := []*world{w, other}
	var disturbed []map[string]int
	var pids []map[string]int64
	for _, each := range both {
		disturbed, pids = append(disturbed, each.disturbed()), append(pids, each.pids())
	}
	begin := time.Now()
	for i, r := range w.regions {
		r.edit(setArg("70000"))
		other.regions[i].edit(setArg("80000"))
	}
	for i, each := range both {
		each.settled()
		names := each.names()
		w.Expect(names).To(HaveLen(len(each.regions)))
		w.Expect(changed(pids[i], each.pids())).To(Equal(names))
		w.Expect(each.since(disturbed[i])).To(Equal(once(names...)))
	}
	w.t.Logf("both were rolled out within %s", time.Since(begin).Round(time.Millisecond))
	w.Expect(w.view().Token).To(BeNumerically("<", ahead))
	w.Expect(other.view().Token).To(BeNumerically(">", ahead))
	w.Expect(w.state().Cluster).NotTo(Equal(other.state().Cluster))
	for i, r := range w.regions {
		w.Expect(wrongOrders(r.orders())).To(BeEmpty(), r.prefix)
		for _, o := range r.orders() {
			owner := map[string]string{w.cluster: r.prefix, other.cluster: other.regions[i].prefix}[o.System]
			w.Expect(o.Member).To(HavePrefix(owner+"-"), o.Order)
		}
		r.checkMetrics(w.cluster, other.cluster)
	}
	w.Expect(overlaps(w.allOrders())).To(BeEmpty())
}

// checkMetrics sees that an operator measures systems by themselves.
func (r *region) checkMetrics(systems ...string) {
	r.w.t.Helper()
	answer, err := http.Get("http://" + r.metrics + "/metrics")
	r.w.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	r.w.Expect(err).NotTo(HaveOccurred())
	r.w.Expect(answer.StatusCode).To(Equal(http.StatusOK))
	lines := strings.Split(string(content), "\n")
	for _, system := range systems {
		labels := fmt.Sprintf("instance=%q,system=%q", r.prefix+"-operator", system)
		r.w.Expect(lines).To(ContainElement(HavePrefix("coordination_lock_lost_total{"+labels+"}")), "of %s", system)
	}
}
