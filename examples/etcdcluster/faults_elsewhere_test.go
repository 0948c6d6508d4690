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

// Operators that meet in another etcd are lost under each policy, are there twice, and are updated; that etcd restarts; and a second
// system meets in it too.
func TestElsewhere(t *testing.T) {
	member := rig.Etcd(t, 1)[0]
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://" + member.Endpoint}, Logger: zap.NewNop(), DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	o := faulty()
	o.store = etcdstore.New(client, etcdstore.Options{Timeout: time.Second})
	o.args = append(o.args, "--store-endpoints=http://"+member.Endpoint)
	o.prepare = measured
	w := begin(t, o)
	play(t, w, []act{
		{"one that has not accepted is waited for", func(s *scene) { s.lost(etcdclusterv1alpha1.MissingWait, false) }},
		{"one that has not accepted is gone on without", func(s *scene) { s.lost(etcdclusterv1alpha1.MissingGoOn, false) }},
		{"one that has not accepted is left out", func(s *scene) { s.lost(etcdclusterv1alpha1.MissingLeaveOut, false) }},
		{"one that has accepted is waited for", func(s *scene) { s.lost(etcdclusterv1alpha1.MissingWait, true) }},
		{"one that has accepted is not gone on without", func(s *scene) { s.lost(etcdclusterv1alpha1.MissingGoOn, true) }},
		{"one that has accepted is not left out", func(s *scene) { s.lost(etcdclusterv1alpha1.MissingLeaveOut, true) }},
		{"there are two processes of each operator", (*scene).twice},
		{"the operators are updated", (*scene).updated},
		{"the store restarts", func(s *scene) { s.storeRestarts(t, member) }},
		{"there is another system", func(s *scene) { s.checkBeside(o) }},
	})
	w.checkHistoryIn(client)
}

// policy sets what becomes of members that are not ready, in all regions.
func (s *scene) policy(missing etcdclusterv1alpha1.MissingPolicy) {
	s.t.Helper()
	s.editAll(func(spec *spec) {
		spec.AutomationOptions.Missing, spec.AutomationOptions.GoOnAfter = missing, nil
		if missing == etcdclusterv1alpha1.MissingGoOn {
			spec.AutomationOptions.GoOnAfter = &metav1.Duration{Duration: 3 * time.Second}
		}
	})
	s.settled()
}

// lost kills the operator of a region that is to restart its member: before the order for it is published, so that nobody accepts
// it, or when it has been accepted. One that was accepted is waited for under each policy.
func (s *scene) lost(missing etcdclusterv1alpha1.MissingPolicy, accepted bool) {
	s.policy(missing)
	before := s.disturbed()
	var id coordination.MemberID
	at := func(v *view) bool {
		id = ""
		switch {
		case !held(v):
		case accepted:
			if step := present(v); step != nil && step.Order && v.Accepted(step.Member()) {
				id = step.Member()
			}
		case v.Intent.StepIndex == 0: // the last one that does not act: its turn comes later
			for _, step := range v.Intent.Steps[min(1, len(v.Intent.Steps)):] {
				if step.Order && s.owner(step.Member()) != s.of(v.Lock.Holder) {
					id = step.Member()
				}
			}
		}
		return id != ""
	}
	s.change()
	v := s.wait(s.when(at, func(*view) { _ = s.owner(id).operator.Kill() }))
	gone := s.owner(id)
	s.Expect(gone.operator.Running()).To(BeFalse())
	over := overSince(v)
	if accepted || missing == etcdclusterv1alpha1.MissingWait {
		const patient = 6 * time.Second // three times a session, and twice the time of the policy that goes on
		s.until(func(v *view) bool { step := present(v); return over(v) || step != nil && step.Member() == id })
		s.Consistently(func() bool { return over(s.look()) }).WithTimeout(patient).Should(BeFalse(), "the plan goes on without %s", id)
		s.Expect(s.look().Instances).NotTo(ContainElement(HaveField("Prefix", gone.prefix)), "it is missed")
	} else {
		s.until(over)
		var why []string
		for _, done := range s.look().DoneRecords {
			if done.ID == v.Intent.ID {
				why = append(why, done.LeftOut[id])
			}
		}
		s.Expect(why).To(ConsistOf(Not(BeEmpty())), "it is recorded that %s was left out", id)
		s.Expect(s.since(before)).NotTo(HaveKey(string(id)))
	}
	gone.again()
	s.settled()
	s.Expect(s.since(before)).To(Equal(once(s.names()...)))
	s.policy(etcdclusterv1alpha1.MissingWait)
}

// twice starts a second process of each operator, so that there are two of each participant while a plan is carried out. Then the
// newer ones are killed in the middle of a plan, and the older ones work again.
func (s *scene) twice() {
	older := map[*region]*rig.Running{}
	for _, r := range s.regions {
		older[r] = r.operator
		r.startOperator()
		s.works(r)
	}
	s.midPlan(nothing, s.amid)
	for _, r := range s.regions {
		s.Expect([]bool{older[r].Running(), r.operator.Running()}).To(Equal([]bool{true, true}), "both processes of %s", r.prefix)
	}
	s.midPlan(nothing, func(v *view) bool {
		for _, r := range s.regions {
			s.Expect(r.operator.Kill()).To(Succeed())
		}
		return s.amid(v)
	})
	for _, r := range s.regions {
		r.operator = older[r]
		s.Expect(r.operator.Running()).To(BeTrue(), "the older process of %s", r.prefix)
	}
}

// works waits until the newest process of an operator takes part.
func (s *scene) works(r *region) {
	s.t.Helper()
	newest := r.operator.Log
	s.Eventually(func() int { return s.linesIn(newest, "Starting workers") }).Should(BeNumerically(">", 0))
	s.Expect(r.operator.Running()).To(BeTrue(), "the new process of %s", r.prefix)
}

// updated replaces the operators one after the other while a plan is carried out, as a Deployment does: the new process works before
// the old one is asked to end.
func (s *scene) updated() {
	s.midPlan(nothing, func(v *view) (in bool) {
		for _, r := range s.regions {
			old := r.operator
			r.startOperator()
			s.works(r)
			s.Expect(old.Terminate()).To(Succeed())
			s.Eventually(old.Done()).Should(BeClosed())
			in = in || s.amid(v)
		}
		return in
	})
}

// storeRestarts ends the store in the middle of a plan for longer than sessions last. Nothing is begun meanwhile.
func (s *scene) storeRestarts(t *testing.T, member *rig.EtcdMember) {
	s.midPlan(nothing, func(v *view) bool {
		s.Expect(member.Kill()).To(Succeed())
		time.Sleep(2 * time.Second) // what was accepted before is carried out
		before := s.disturbed()
		time.Sleep(3 * time.Second)
		s.Expect(s.since(before)).To(BeEmpty())
		member.Start(t)
		return s.amid(v)
	})
}
