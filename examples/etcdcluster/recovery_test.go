package main

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
)

// The regions recover from permanent faults: agents that have seen higher tokens than the store, a member that
// does not start, and a region that is deleted while its operator is down.
func TestRecoveryFromPermanentFaults(t *testing.T) {
	w := start(t, options{mode: etcdclusterv1alpha1.SynchronizationGlobal, quiet: time.Second})
	t.Run("a restored store", func(t *testing.T) {
		w.WithT = newGomega(t)
		const newestToken = 1000
		for _, r := range w.regions {
			client, err := agent.NewClient("http://" + r.address)
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(client.Delete(t.Context(), "nobody", agent.Order{Token: newestToken, System: clusterName, ID: "after-the-snapshot"})).To(Succeed())
		}
		w.editAll(setArg("20000"))
		w.awaitSettled()
		w.Expect(w.restartCounts()).To(Equal(onceEach("dc1-1", "dc2-1", "dc3-1")))
		w.Expect(w.view().Token).To(BeNumerically(">", newestToken))
	})
	t.Run("a member that does not start", func(t *testing.T) {
		w.WithT = newGomega(t)
		broken := w.regions[1]
		broken.edit(func(spec *etcdclusterv1alpha1.EtcdClusterSpec) { spec.Args["heartbeat-interval"] = "soon" })
		w.Eventually(func() string {
			var waiting []string
			for _, r := range w.regions { // the holder reports it
				waiting = append(waiting, r.get().Status.Waiting)
			}
			return strings.Join(waiting, "\n")
		}).Should(ContainSubstring("restart dc2-1: it is not healthy yet"))
		broken.edit(func(spec *etcdclusterv1alpha1.EtcdClusterSpec) {
			delete(spec.Args, "heartbeat-interval")
			spec.Replace = []etcdclusterv1alpha1.MemberID{"dc2-1"}
		})
		w.awaitSettled()
		w.Expect(w.voterNames()).To(Equal([]string{"dc1-1", "dc2-2", "dc3-1"}))
	})
	t.Run("a region that is deleted", func(t *testing.T) {
		w.WithT = newGomega(t)
		deleted := w.regions[2]
		w.Expect(deleted.operator.Kill()).To(Succeed())
		w.Expect(deleted.Client.Delete(t.Context(), deleted.get())).To(Succeed())
		w.Eventually(func() bool { return w.view().Present("dc3") }).Should(BeFalse())
		w.Expect(w.view().Participants).To(HaveLen(3), "it has not left the coordination")
		deleted.startOperator()
		w.Eventually(func() error {
			return deleted.Client.Get(t.Context(), client.ObjectKey{Namespace: deleted.Namespace, Name: clusterName}, &etcdclusterv1alpha1.EtcdCluster{})
		}).Should(Satisfy(apierrors.IsNotFound))
		w.regions = w.regions[:2]
		view := w.view()
		w.Expect(view.Participants).To(HaveLen(2))
		w.Expect(view.DeadParticipants()).To(BeEmpty())
		w.Expect(deleted.agent.Running()).To(BeTrue(), "its member keeps running")
	})
}

func newGomega(t *testing.T) *WithT {
	t.Helper()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(timeout)
	g.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	return g
}
