package writeprobe_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ringmaster-project/ringmaster/demo/view"
	"github.com/ringmaster-project/ringmaster/demo/writeprobe"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

// TestProbe pauses members of an etcd cluster, and moves its leader.
func TestProbe(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(2 * time.Minute)
	members := rig.Etcd(t, 3)
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, "http://"+m.Endpoint)
	}
	var mu sync.Mutex
	var reports []string
	ctx, cancel := context.WithCancel(t.Context())
	p, err := writeprobe.Start(ctx, writeprobe.Options{
		Endpoints: func() []string { return endpoints }, Changed: func() {},
		Report: func(about, message string, _ bool) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, about+": "+message)
		},
	})
	g.Expect(err).NotTo(HaveOccurred())
	counts := func() view.Clients { c, _ := p.Counts(); return c }
	leader := func() string { _, l := p.Counts(); return l }
	g.Eventually(counts).Should(HaveField("Writes", BeNumerically(">", 3)))
	g.Eventually(leader).ShouldNot(BeEmpty())
	before := leader()

	g.Expect(moveLeader(t, endpoints)).To(Succeed())
	g.Eventually(leader).ShouldNot(Equal(before))
	g.Expect(counts().Elections).To(BeNumerically(">=", 1))

	for _, m := range members[:2] {
		g.Expect(m.Pause()).To(Succeed())
	}
	g.Eventually(counts).Should(And(HaveField("Problem", Not(BeEmpty())), HaveField("Failed", BeNumerically(">", 0))))
	for _, m := range members[:2] {
		g.Expect(m.Resume()).To(Succeed())
	}
	g.Eventually(counts).Should(HaveField("Problem", BeEmpty()))
	g.Expect(counts()).To(And(HaveField("Slow", BeNumerically(">", 0)), HaveField("Slowest", BeNumerically(">", view.SlowWrite))))
	cancel()
	p.Wait()
	mu.Lock()
	defer mu.Unlock()
	g.Expect(strings.Join(reports, "\n")).To(ContainSubstring("client: a write failed: "))
}

// moveLeader transfers the leadership to another member.
func moveLeader(t *testing.T, endpoints []string) error {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	for _, endpoint := range endpoints {
		status, err := client.Status(t.Context(), endpoint)
		if err != nil {
			return err
		}
		if status.Header.MemberId != status.Leader {
			continue
		}
		list, err := client.MemberList(t.Context())
		if err != nil {
			return err
		}
		client.SetEndpoints(endpoint) // only the leader can transfer its leadership
		for _, m := range list.Members {
			if m.ID != status.Leader {
				_, err := client.MoveLeader(t.Context(), m.ID)
				return err
			}
		}
	}
	return nil
}
