package robustness_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestAPIServerAway takes the API server or etcd away, for less and for more time than Leases last.
//
//nolint:tparallel // the parts break the same control plane
func TestAPIServerAway(t *testing.T) {
	t.Parallel()
	r := rig.Private(t, options)
	t.Run("Briefly", func(t *testing.T) { briefOutage(t, r.For(t)) })
	t.Run("LongerThanTheRenewDeadline", func(t *testing.T) { longOutage(t, r.For(t)) })
}

// ready ends what the test did to the control plane: it starts a component again and waits until that is ready.
func ready(s *scene, start func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	s.Expect(start(ctx)).To(Succeed())
}

// briefOutage kills the API server and etcd under load, and has etcd hang. Nobody loses a Lease that lasts longer, and no
// object moves.
func briefOutage(t *testing.T, r *rig.Rig) {
	const lease = 2 * time.Minute
	startSharders(t, r, func(s *sharders) { s.lease = lease })
	s := setScene(t, r)
	s.join("a", slow, with(variableLease, lease))
	s.join("b", slow, with(variableLease, lease))
	s.user.work()
	moment()
	s.user.hold(s.user.generate) // so that somebody has to assign it after the outage
	began := time.Now()
	s.user.outage.Store(true)
	s.Expect(r.APIServer.Kill()).To(Succeed())
	ready(s, r.APIServer.Start)
	away := time.Since(began)
	moment()
	s.Expect(r.Etcd.Kill()).To(Succeed())
	time.Sleep(retryPeriod)
	ready(s, r.Etcd.Start)
	moment()
	s.Expect(r.Etcd.Pause()).To(Succeed())
	time.Sleep(retryPeriod * 2)
	s.Expect(r.Etcd.Resume()).To(Succeed())
	moment()
	s.user.outage.Store(false)
	moment()
	report := s.judge(bounds{unowned: away + assignGenerated, apart: followOwner}, "a", "b")
	s.Expect(report.Figures.Changes).To(HaveLen(2), "nobody but the two that joined came or went")
}

// longOutage has no API server for longer than Leases last: all shards and sharders stop by themselves, because nobody
// knows who works. Restarted under their names, as a kubelet does it, they continue with what they had.
func longOutage(t *testing.T, r *rig.Rig) {
	sharders := startSharders(t, r)
	s := setScene(t, r)
	names := []string{"a", "b"}
	for _, name := range names {
		s.join(name, slow)
	}
	s.user.work()
	moment()
	s.user.hold(s.user.generate)
	s.user.outage.Store(true)
	s.Expect(r.APIServer.Kill()).To(Succeed())
	for _, m := range s.members {
		s.Expect(s.end(m)).NotTo(Succeed())
	}
	sharders.ends(sharders.replicas[0])
	sharders.killAll()
	time.Sleep(leaseDuration - deadline(leaseDuration) + retryPeriod)
	ready(s, r.APIServer.Start)
	for _, name := range names {
		s.launch(name)
	}
	for range names {
		sharders.start()
	}
	for _, m := range s.members[len(names):] {
		s.joined(m)
	}
	s.user.outage.Store(false)
	moment()
	// The next leader waits for the Lease of the last one, and then assigns what was created without a shard.
	s.judge(bounds{unowned: leaseDuration + 2*assignGenerated, apart: followOwner}, names...)
}
