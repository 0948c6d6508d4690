//go:build faults

package main

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
)

// Operators that meet in an API server are cut off from it. The others go on or wait, and say so, and what was under way
// when the network was cut arrives too late to do harm. Here too no two clocks agree. At the end those of a second system meet there.
func TestCutOff(t *testing.T) {
	o, said := inKubernetesStore(t)
	w := begin(t, o)
	play(t, w, []act{
		{"who acts", (*scene).actingIsCutOff},
		{"who obeys", (*scene).obeyingIsCutOff},
		{"one that has not said what it wants", (*scene).cutOffBefore},
		{"there is another system", func(s *scene) { s.checkBeside(o) }},
	})
	said.check(w)
}

// inKubernetesStore are the options of a world whose operators meet in a namespace, each behind a network of its own. What
// they say there is written down.
func inKubernetesStore(t *testing.T) (options, *recorder) {
	t.Helper()
	meeting := rig.Shared(t)
	config := rest.CopyConfig(meeting.Config)
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	o := faulty()
	if o.store, err = kubestore.New(clients, kubestore.Options{Namespace: meeting.Namespace}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("../../pkg/coordination/kubestore/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{}
	if err := yaml.Unmarshal(content, role); err != nil {
		t.Fatal(err)
	}
	if _, err := clients.RbacV1().Roles(meeting.Namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.args = append(o.args, "--store=kubernetes", "--store-namespace="+meeting.Namespace)
	o.prepare = func(r *region) {
		measured(r)
		r.network = r.Proxy(t)
		r.clockOff = map[string]time.Duration{"dc1": -time.Hour, "dc2": time.Hour}[r.prefix]
		_, err := clients.RbacV1().RoleBindings(meeting.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: r.prefix},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.Namespace, Name: "etcdcluster-operator"}},
		}, metav1.CreateOptions{})
		r.w.Expect(err).NotTo(HaveOccurred())
	}
	return o, record(t, clients, meeting.Namespace)
}

// actingIsCutOff cuts who acts off for longer than its session: another one goes on, and waits for it at its own member.
func (s *scene) actingIsCutOff() {
	var cut *region
	s.midPlan(
		func(v *view) {
			cut = s.of(v.Lock.Holder)
			cut.network.Cut(faultproxy.Both)
		},
		func(v *view) bool {
			lost := s.said(cut, lockLost)
			s.Expect(s.taken(v)).NotTo(BeNil(), "its own member is not done without it")
			s.saysOneOf(gone(cut), s.others(cut)...)
			cut.network.Mend()
			s.saysAgain(cut, lockLost, lost)
			return true
		})
}

// obeyingIsCutOff cuts one off that does not act.
func (s *scene) obeyingIsCutOff() {
	var cut *region
	s.midPlan(
		func(v *view) {
			cut = s.others(s.of(v.Lock.Holder))[1]
			cut.network.Cut(faultproxy.Both)
		},
		func(v *view) bool {
			s.saysOneOf(gone(cut), s.others(cut)...)
			in := s.amid(v)
			cut.network.Mend()
			return in
		})
}

// cutOffBefore cuts a region off before it knows what is wanted of it. Nobody waits for that, and everybody says that it
// takes no part. It catches up when it is back.
func (s *scene) cutOffBefore() {
	cut := s.regions[1]
	there := s.others(cut)
	cut.network.Cut(faultproxy.Both)
	for _, r := range there {
		missing := s.reports(r, coordination.ConditionCoordinated, coordination.ReasonNotAlive)
		s.Expect(missing.Message).To(ContainSubstring(cut.prefix))
	}
	before := s.disturbed()
	s.change()
	s.settled(there...)
	s.Expect(s.since(before)).To(Equal(once(string(there[0].id()), string(there[1].id()))))
	cut.network.Mend()
	s.settled()
	s.Expect(s.since(before)).To(Equal(once(s.names()...)))
	for _, r := range s.regions {
		s.reports(r, coordination.ConditionCoordinated, coordination.ReasonSettled)
	}
}
