package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
)

// One operator acts for all: every member is restarted once, and replaced once, and the leader changes at most once each
// time. Members talk to each other with TLS, and another system beside this one makes no difference.
func TestGlobal(t *testing.T) {
	o := options{mode: etcdclusterv1alpha1.SynchronizationGlobal, quiet: time.Second, prepare: measured}
	w := begin(t, o)
	w.Expect(w.names()).To(Equal([]string{"dc1-1", "dc2-1", "dc3-1"}))
	writer := w.write()

	before, term := w.pids(), w.term()
	w.editAll(setArg("20000"))
	w.settled()
	w.Expect(changed(before, w.pids())).To(Equal([]string{"dc1-1", "dc2-1", "dc3-1"}))
	w.Expect(w.disturbed()).To(Equal(once("dc1-1", "dc2-1", "dc3-1")))
	w.Expect(w.term()-term).To(BeNumerically("<=", 1), "leader changes")

	term = w.term()
	for _, r := range w.regions {
		r.replace()
	}
	w.settled()
	w.Expect(w.names()).To(Equal([]string{"dc1-2", "dc2-2", "dc3-2"}))
	w.Expect(w.term()-term).To(BeNumerically("<=", 1), "leader changes")
	writer.check()
	w.checkPeers()
	w.Expect(len(w.view().DoneRecords)).To(BeElementOf(3, 4), "two joined, at once or not, all were restarted, all were replaced")
	w.checkBeside(o)
}

// Each operator acts for itself, one at a time.
func TestLocal(t *testing.T) {
	w := begin(t, options{mode: etcdclusterv1alpha1.SynchronizationLocal})
	writer := w.write()
	before := w.pids()
	w.editAll(setArg("20000"))
	w.settled()
	w.Expect(changed(before, w.pids())).To(Equal([]string{"dc1-1", "dc2-1", "dc3-1"}))
	w.Expect(w.disturbed()).To(Equal(once("dc1-1", "dc2-1", "dc3-1")))
	for _, r := range w.regions {
		r.replace()
	}
	w.settled()
	w.Expect(w.names()).To(Equal([]string{"dc1-2", "dc2-2", "dc3-2"}))
	writer.check()
	view := w.view()
	w.Expect(view.Instances).To(BeEmpty())
	w.Expect(view.DoneRecords).To(BeEmpty(), "they have told nobody")
}
