package robustness_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

const (
	testTimeout = rig.Timeout
	polling     = 100 * time.Millisecond
)

// sharders are the replicas of the sharder, with one address for their webhooks.
type sharders struct {
	*rig.Rig
	*WithT
	t        *testing.T
	frontend *frontend
	// lease is the leader's lease duration, and config is merged into the configuration file.
	lease  time.Duration
	config string
	// proxied is whether each replica has a proxy in front of the API server.
	proxied bool
	started int
	// replicas are the running replicas. The first one leads.
	replicas []*replica
}

// replica is one process of the sharder.
type replica struct {
	*rig.Sharder
	proxy *faultproxy.Proxy // or nil
}

// startSharders runs two replicas.
func startSharders(t *testing.T, r *rig.Rig, change ...func(*sharders)) *sharders {
	t.Helper()
	s := &sharders{Rig: r, WithT: newGomega(t), t: t, frontend: newFrontend(t), lease: leaseDuration}
	for _, c := range change {
		c(s)
	}
	s.start()
	s.waitForLeader()
	s.start()
	return s
}

func newGomega(t *testing.T) *WithT {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(testTimeout)
	g.SetDefaultEventuallyPollingInterval(polling)
	return g
}

// start starts another replica.
func (s *sharders) start() *replica {
	s.t.Helper()
	started := &replica{}
	if s.proxied {
		started.proxy = s.Proxy(s.t)
	}
	started.Sharder = s.StartSharder(s.t, rig.SharderOptions{
		Name: fmt.Sprint("sharder-", s.started), Roles: []string{"test/robustness/testdata/ring-role.yaml"},
		Proxy: started.proxy,
		Config: fmt.Sprintf(`
leaderElection: {leaseDuration: %s, renewDeadline: %s, retryPeriod: %s}
webhook: {config: {clientConfig: {url: %q}}}
%s
`, s.lease, deadline(s.lease), retryPeriod, s.frontend.url(), s.config),
	})
	s.replicas = append(s.replicas, started)
	s.started++
	s.frontend.add(started.Webhook)
	return started
}

// leader returns the holder of the election Lease.
func (s *sharders) leader() string {
	lease := &coordinationv1.Lease{}
	if err := s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: "sharder"}, lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// waitForLeader waits until a replica leads.
func (s *sharders) waitForLeader() {
	s.t.Helper()
	s.Eventually(s.leader).ShouldNot(BeEmpty())
}

// loseLeader calls a function that ends the lead of the leader, and returns that replica when the other one leads.
func (s *sharders) loseLeader(happen func(*replica)) *replica {
	s.t.Helper()
	before := s.leader()
	lost := s.replicas[0]
	s.replicas = s.replicas[1:]
	happen(lost)
	s.Eventually(s.leader).ShouldNot(Or(BeEmpty(), Equal(before)))
	return lost
}

// killLeader kills the leader, and waits until the other replica leads.
func (s *sharders) killLeader() {
	s.t.Helper()
	s.loseLeader(func(leader *replica) { s.Expect(leader.Kill()).To(Succeed()) })
}

// waitForEnd waits until a replica has ended by itself, because it has lost its lead.
func (s *sharders) waitForEnd(lost *replica) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testTimeout)
	defer cancel()
	err := lost.Wait(ctx)
	s.Expect(err).To(HaveOccurred())
	s.Expect(err).NotTo(MatchError(context.DeadlineExceeded), "a replica that has lost its lead still runs")
}

// killAll kills all replicas.
func (s *sharders) killAll() {
	s.t.Helper()
	for _, replica := range s.replicas {
		s.Expect(replica.Kill()).To(Succeed())
	}
	s.replicas = nil
}
