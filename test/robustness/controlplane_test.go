package robustness_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestAPIServerAway stops the API server or etcd, for less and for more than the lease duration.
//
//nolint:tparallel // the subtests break the same control plane
func TestAPIServerAway(t *testing.T) {
	t.Parallel()
	r := rig.Private(t, options)
	t.Run("Briefly", func(t *testing.T) { briefOutage(t, r.For(t)) })
	t.Run("LongerThanTheRenewDeadline", func(t *testing.T) { longOutage(t, r.For(t)) })
}

// ready restarts a component and waits until it is ready.
func ready(s *scenario, start func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testTimeout)
	defer cancel()
	s.Expect(start(ctx)).To(Succeed())
}

// briefOutage kills the API server and etcd under load, and pauses etcd, for less than the lease duration. No Lease is
// lost, and no object moves.
func briefOutage(t *testing.T, r *rig.Rig) {
	const lease = 2 * time.Minute
	startSharders(t, r, func(s *sharders) { s.lease = lease })
	s := newScenario(t, r)
	s.join("a", slow, with(variableLease, lease))
	s.join("b", slow, with(variableLease, lease))
	s.user.start()
	waitForWork()
	s.user.whilePaused(s.user.createGenerated) // so that it must be assigned after the outage
	began := time.Now()
	s.user.outage.Store(true)
	s.Expect(r.APIServer.Kill()).To(Succeed())
	ready(s, r.APIServer.Start)
	away := time.Since(began)
	waitForWork()
	s.Expect(r.Etcd.Kill()).To(Succeed())
	time.Sleep(retryPeriod)
	ready(s, r.Etcd.Start)
	waitForWork()
	s.Expect(r.Etcd.Pause()).To(Succeed())
	time.Sleep(retryPeriod * 2)
	s.Expect(r.Etcd.Resume()).To(Succeed())
	waitForWork()
	s.user.outage.Store(false)
	waitForWork()
	report := s.checkHistory(bounds{unowned: away + assignGenerated, apart: followOwner}, "a", "b")
	s.Expect(report.Figures.Changes).To(HaveLen(2), "nobody but the two that joined came or went")
}

// longOutage stops the API server for longer than the lease duration: all shards and sharders stop by themselves, and
// continue with the same objects when they are restarted with the same names, as a kubelet does.
func longOutage(t *testing.T, r *rig.Rig) {
	sharders := startSharders(t, r)
	s := newScenario(t, r)
	names := []string{"a", "b"}
	for _, name := range names {
		s.join(name, slow)
	}
	s.user.start()
	waitForWork()
	s.user.whilePaused(s.user.createGenerated)
	s.user.outage.Store(true)
	s.Expect(r.APIServer.Kill()).To(Succeed())
	for _, m := range s.processes {
		s.Expect(s.end(m)).NotTo(Succeed())
	}
	sharders.waitForEnd(sharders.replicas[0])
	sharders.killAll()
	time.Sleep(leaseDuration - deadline(leaseDuration) + retryPeriod)
	ready(s, r.APIServer.Start)
	for _, name := range names {
		s.launch(name)
	}
	for range names {
		sharders.start()
	}
	for _, m := range s.processes[len(names):] {
		s.waitForJoin(m)
	}
	s.user.outage.Store(false)
	waitForWork()
	// The next leader waits for the Lease of the last one, and then assigns what was created without a shard.
	s.checkHistory(bounds{unowned: leaseDuration + 2*assignGenerated, apart: followOwner}, names...)
}
