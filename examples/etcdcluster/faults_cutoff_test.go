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

// Operators with a store in an API server are cut off from it. The others continue or wait, and report that.
// Writes that arrive late have no effect. The clocks of the operators differ. At the end a second system uses
// the same store.
func TestOperatorsCutOffFromStore(t *testing.T) {
	o, output := inKubernetesStore(t)
	w := start(t, o)
	runFaults(t, w, []faultCase{
		{"the holder", (*faultTest).holderIsCutOff},
		{"an executor", (*faultTest).executorIsCutOff},
		{"before the declaration", (*faultTest).cutOffBeforeDeclaring},
		{"a second system", func(s *faultTest) { s.checkSecondSystem(o) }},
	})
	output.check(w)
}

// inKubernetesStore returns the options of a fixture with a store in a namespace and a proxy for each operator,
// and a recorder of that store.
func inKubernetesStore(t *testing.T) (options, *recorder) {
	t.Helper()
	shared := rig.Shared(t)
	config := rest.CopyConfig(shared.Config)
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	o := faultOptions()
	if o.store, err = kubestore.New(clients, kubestore.Options{Namespace: shared.Namespace}); err != nil {
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
	if _, err := clients.RbacV1().Roles(shared.Namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.args = append(o.args, "--store=kubernetes", "--store-namespace="+shared.Namespace)
	o.prepare = func(r *region) {
		serveMetrics(r)
		r.apiProxy = r.Proxy(t)
		r.clockSkew = map[string]time.Duration{"dc1": -time.Hour, "dc2": time.Hour}[r.prefix]
		_, err := clients.RbacV1().RoleBindings(shared.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: r.prefix},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.Namespace, Name: "etcdcluster-operator"}},
		}, metav1.CreateOptions{})
		r.f.Expect(err).NotTo(HaveOccurred())
	}
	return o, record(t, clients, shared.Namespace)
}

// holderIsCutOff cuts the holder of the lock off for longer than its session: another operator continues, and
// waits for it at its own member.
func (s *faultTest) holderIsCutOff() {
	var cut *region
	s.duringPlan(
		func(v *view) {
			cut = s.operatorRegion(v.Lock.Holder)
			cut.apiProxy.Cut(faultproxy.Both)
		},
		func(v *view) bool {
			lost := s.countEvents(cut, lockLost)
			s.Expect(s.awaitTakeover(v)).NotTo(BeNil(), "its own member is not restarted without it")
			s.awaitWaitingAny(waitingForDead(cut), s.otherRegions(cut)...)
			cut.apiProxy.Heal()
			s.awaitNewEvent(cut, lockLost, lost)
			return true
		})
}

// executorIsCutOff cuts off an operator that is not the holder.
func (s *faultTest) executorIsCutOff() {
	var cut *region
	s.duringPlan(
		func(v *view) {
			cut = s.otherRegions(s.operatorRegion(v.Lock.Holder))[1]
			cut.apiProxy.Cut(faultproxy.Both)
		},
		func(v *view) bool {
			s.awaitWaitingAny(waitingForDead(cut), s.otherRegions(cut)...)
			in := s.isInProgress(v)
			cut.apiProxy.Heal()
			return in
		})
}

// cutOffBeforeDeclaring cuts a region off before it declares its needs. The others do not wait for it, and
// report that it is not alive. It catches up when it is back.
func (s *faultTest) cutOffBeforeDeclaring() {
	cut := s.regions[1]
	there := s.otherRegions(cut)
	cut.apiProxy.Cut(faultproxy.Both)
	for _, r := range there {
		missing := s.awaitReason(r, coordination.ConditionCoordinated, coordination.ReasonNotAlive)
		s.Expect(missing.Message).To(ContainSubstring(cut.prefix))
	}
	before := s.restartCounts()
	s.changeArgs()
	s.awaitSettled(there...)
	s.Expect(s.restartsSince(before)).To(Equal(onceEach(string(there[0].id()), string(there[1].id()))))
	cut.apiProxy.Heal()
	s.awaitSettled()
	s.Expect(s.restartsSince(before)).To(Equal(onceEach(s.voterNames()...)))
	for _, r := range s.regions {
		s.awaitReason(r, coordination.ConditionCoordinated, coordination.ReasonSettled)
	}
}
