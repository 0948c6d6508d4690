package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
)

// One operator acts for all: every member is restarted once and replaced once, with at most one change of the
// leader each. Members use TLS among each other, and another system has no effect.
func TestGlobalModeRestartsEachMemberOnce(t *testing.T) {
	o := options{mode: etcdclusterv1alpha1.SynchronizationGlobal, quiet: time.Second, prepare: serveMetrics}
	w := start(t, o)
	w.Expect(w.voterNames()).To(Equal([]string{"dc1-1", "dc2-1", "dc3-1"}))
	writer := w.startWriter()

	before, term := w.memberPIDs(), w.raftTerm()
	w.editAll(setArg("20000"))
	w.awaitSettled()
	w.Expect(restartedMembers(before, w.memberPIDs())).To(Equal([]string{"dc1-1", "dc2-1", "dc3-1"}))
	w.Expect(w.restartCounts()).To(Equal(onceEach("dc1-1", "dc2-1", "dc3-1")))
	w.Expect(w.raftTerm()-term).To(BeNumerically("<=", 1), "leader changes")

	term = w.raftTerm()
	for _, r := range w.regions {
		r.replaceMembers()
	}
	w.awaitSettled()
	w.Expect(w.voterNames()).To(Equal([]string{"dc1-2", "dc2-2", "dc3-2"}))
	w.Expect(w.raftTerm()-term).To(BeNumerically("<=", 1), "leader changes")
	writer.check()
	w.checkPeers()
	w.Expect(len(w.view().DoneRecords)).To(BeElementOf(3, 4), "two joined, at once or not, all were restarted, all were replaced")
	w.checkSecondSystem(o)
}

// Each operator acts on its own members, one at a time.
func TestLocalModeRestartsEachMemberOnce(t *testing.T) {
	w := start(t, options{mode: etcdclusterv1alpha1.SynchronizationLocal})
	writer := w.startWriter()
	before := w.memberPIDs()
	w.editAll(setArg("20000"))
	w.awaitSettled()
	w.Expect(restartedMembers(before, w.memberPIDs())).To(Equal([]string{"dc1-1", "dc2-1", "dc3-1"}))
	w.Expect(w.restartCounts()).To(Equal(onceEach("dc1-1", "dc2-1", "dc3-1")))
	for _, r := range w.regions {
		r.replaceMembers()
	}
	w.awaitSettled()
	w.Expect(w.voterNames()).To(Equal([]string{"dc1-2", "dc2-2", "dc3-2"}))
	writer.check()
	view := w.view()
	w.Expect(view.Instances).To(BeEmpty())
	w.Expect(view.DoneRecords).To(BeEmpty(), "they have told nobody")
}
