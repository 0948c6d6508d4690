//go:build faults

package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
)

// Operators with a store in another etcd die under each policy, run twice, and are updated; that etcd restarts;
// and a second system uses it too.
func TestFaultsWithSeparateStore(t *testing.T) {
	member := rig.Etcd(t, 1)[0]
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://" + member.Endpoint}, Logger: zap.NewNop(), DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	o := faultOptions()
	o.store = etcdstore.New(client, etcdstore.Options{Timeout: time.Second})
	o.args = append(o.args, "--store-endpoints=http://"+member.Endpoint)
	o.prepare = serveMetrics
	w := start(t, o)
	runFaults(t, w, []faultCase{
		{"before acceptance, Wait", func(s *faultTest) { s.operatorDies(etcdclusterv1alpha1.MissingWait, false) }},
		{"before acceptance, GoOn", func(s *faultTest) { s.operatorDies(etcdclusterv1alpha1.MissingGoOn, false) }},
		{"before acceptance, LeaveOut", func(s *faultTest) { s.operatorDies(etcdclusterv1alpha1.MissingLeaveOut, false) }},
		{"after acceptance, Wait", func(s *faultTest) { s.operatorDies(etcdclusterv1alpha1.MissingWait, true) }},
		{"after acceptance, GoOn", func(s *faultTest) { s.operatorDies(etcdclusterv1alpha1.MissingGoOn, true) }},
		{"after acceptance, LeaveOut", func(s *faultTest) { s.operatorDies(etcdclusterv1alpha1.MissingLeaveOut, true) }},
		{"two processes of each operator", (*faultTest).twoProcesses},
		{"a rolling update", (*faultTest).rollingUpdate},
		{"the store restarts", func(s *faultTest) { s.storeRestarts(t, member) }},
		{"a second system", func(s *faultTest) { s.checkSecondSystem(o) }},
	})
	w.checkHistoryIn(client)
}

// setMissingPolicy sets the policy for missing members in all regions.
func (s *faultTest) setMissingPolicy(missing etcdclusterv1alpha1.MissingPolicy) {
	s.t.Helper()
	s.editAll(func(spec *spec) {
		spec.AutomationOptions.Missing, spec.AutomationOptions.GoOnAfter = missing, nil
		if missing == etcdclusterv1alpha1.MissingGoOn {
			spec.AutomationOptions.GoOnAfter = &metav1.Duration{Duration: 3 * time.Second}
		}
	})
	s.awaitSettled()
}

// operatorDies kills the operator of a region whose member has to be restarted: before the order is published,
// so that it is not accepted, or after it was accepted. The plan waits for an accepted order under each policy.
func (s *faultTest) operatorDies(missing etcdclusterv1alpha1.MissingPolicy, accepted bool) {
	s.setMissingPolicy(missing)
	before := s.restartCounts()
	var id coordination.MemberID
	at := func(v *view) bool {
		id = ""
		switch {
		case !isHeld(v):
		case accepted:
			if step := currentStep(v); step != nil && step.Order && v.Accepted(step.Member()) {
				id = step.Member()
			}
		case v.Intent.StepIndex == 0: // the last one that is not the holder, because its turn comes later
			for _, step := range v.Intent.Steps[min(1, len(v.Intent.Steps)):] {
				if step.Order && s.memberRegion(step.Member()) != s.operatorRegion(v.Lock.Holder) {
					id = step.Member()
				}
			}
		}
		return id != ""
	}
	s.changeArgs()
	v := s.await(s.onView(at, func(*view) { _ = s.memberRegion(id).operator.Kill() }))
	gone := s.memberRegion(id)
	s.Expect(gone.operator.Running()).To(BeFalse())
	ended := endedSince(v)
	if accepted || missing == etcdclusterv1alpha1.MissingWait {
		const patient = 6 * time.Second // three times a session, and twice the time after which the policy continues
		s.awaitView(func(v *view) bool { step := currentStep(v); return ended(v) || step != nil && step.Member() == id })
		s.Consistently(func() bool { return ended(s.readView()) }).WithTimeout(patient).Should(BeFalse(), "the plan continues without %s", id)
		s.Expect(s.readView().Instances).NotTo(ContainElement(HaveField("Prefix", gone.prefix)), "it counts as dead")
	} else {
		s.awaitView(ended)
		var why []string
		for _, done := range s.readView().DoneRecords {
			if done.ID == v.Intent.ID {
				why = append(why, done.LeftOut[id])
			}
		}
		s.Expect(why).To(ConsistOf(Not(BeEmpty())), "it is recorded that %s was left out", id)
		s.Expect(s.restartsSince(before)).NotTo(HaveKey(string(id)))
	}
	gone.restartOperator()
	s.awaitSettled()
	s.Expect(s.restartsSince(before)).To(Equal(onceEach(s.voterNames()...)))
	s.setMissingPolicy(etcdclusterv1alpha1.MissingWait)
}

// twoProcesses starts a second process of each operator. Then it kills the newer ones during a plan, and the
// older ones work again.
func (s *faultTest) twoProcesses() {
	older := map[*region]*rig.Running{}
	for _, r := range s.regions {
		older[r] = r.operator
		r.startOperator()
		s.awaitRegistered(r)
	}
	s.duringPlan(noop, s.isInProgress)
	for _, r := range s.regions {
		s.Expect([]bool{older[r].Running(), r.operator.Running()}).To(Equal([]bool{true, true}), "both processes of %s", r.prefix)
	}
	s.duringPlan(noop, func(v *view) bool {
		for _, r := range s.regions {
			s.Expect(r.operator.Kill()).To(Succeed())
		}
		return s.isInProgress(v)
	})
	for _, r := range s.regions {
		r.operator = older[r]
		s.Expect(r.operator.Running()).To(BeTrue(), "the older process of %s", r.prefix)
	}
}

// awaitRegistered waits until the newest process of an operator works.
func (s *faultTest) awaitRegistered(r *region) {
	s.t.Helper()
	newest := r.operator.Log
	s.Eventually(func() int { return s.countLogLines(newest, "Starting workers") }).Should(BeNumerically(">", 0))
	s.Expect(r.operator.Running()).To(BeTrue(), "the new process of %s", r.prefix)
}

// rollingUpdate replaces the operators one after the other during a plan, as a Deployment does: the new process
// starts before the old one is stopped.
func (s *faultTest) rollingUpdate() {
	s.duringPlan(noop, func(v *view) (in bool) {
		for _, r := range s.regions {
			old := r.operator
			r.startOperator()
			s.awaitRegistered(r)
			s.Expect(old.Terminate()).To(Succeed())
			s.Eventually(old.Done()).Should(BeClosed())
			in = in || s.isInProgress(v)
		}
		return in
	})
}

// storeRestarts stops the store during a plan for longer than sessions last. No member is disturbed in the
// meantime.
func (s *faultTest) storeRestarts(t *testing.T, member *rig.EtcdMember) {
	s.duringPlan(noop, func(v *view) bool {
		s.Expect(member.Kill()).To(Succeed())
		time.Sleep(2 * time.Second) // orders that were accepted before are carried out
		before := s.restartCounts()
		time.Sleep(3 * time.Second)
		s.Expect(s.restartsSince(before)).To(BeEmpty())
		member.Start(t)
		return s.isInProgress(v)
	})
}
