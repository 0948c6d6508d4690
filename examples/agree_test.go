package examples_test

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"

	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
)

// TestAgree runs two operators: one of them restarts the members of both, once each.
func TestAgree(t *testing.T) {
	r, g := rig.Shared(t), NewWithT(t)
	g.SetDefaultEventuallyTimeout(timeout)
	start := func(prefix string) *rig.Running {
		return r.Start(t, rig.Process{
			Name: prefix, ServiceAccount: "agree", Roles: []string{"pkg/coordination/kubestore/role.yaml"},
			Binary: rig.Build(t, "./examples/agree", rig.Race), Args: []string{"--namespace=" + r.Namespace, "--prefix=" + prefix},
		})
	}
	clients, err := kubernetes.NewForConfig(r.Config)
	g.Expect(err).NotTo(HaveOccurred())
	store, err := kubestore.New(clients, kubestore.Options{Namespace: r.Namespace})
	g.Expect(err).NotTo(HaveOccurred())
	readView := func() *coordination.View {
		view, err := coordination.ReadView(t.Context(), store, "", "agree")
		g.Expect(err).NotTo(HaveOccurred())
		return view
	}
	processes := map[string]*rig.Running{"a": start("a"), "b": start("b")}
	g.Eventually(func() []coordination.DoneRecord { return readView().DoneRecords }).ShouldNot(BeEmpty())
	g.Eventually(func() int { return len(readView().Sets["pendingForRestart"]) }).Should(BeZero())
	for prefix, process := range processes {
		content, err := os.ReadFile(process.Log)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(strings.Count(string(content), "restarting "+prefix+"-1")).To(Equal(1), string(content))
	}
	g.Expect(processes["a"].Stop(t.Context())).To(Succeed())
	g.Expect(readView().Present("a")).To(BeFalse(), "it has left the coordination")
}
