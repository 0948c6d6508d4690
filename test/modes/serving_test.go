package modes

import (
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// serves: a Website gets all its children, and its status shows its phase.
func serves(s *scenario) {
	s.changeTheme("served")
	created := s.create("served", "served", nil)
	s.waitForChildren(created)
	s.waitForPhase(created, "Pending")
	s.makeReady(created)
	s.waitForPhase(created, "Ready")
}

// heals: children of a Website that another client changes or deletes are restored.
func heals(s *scenario) {
	s.changeTheme("healed")
	created := s.create("healed", "healed", nil)
	s.waitForChildren(created)
	for kind, test := range map[string]struct {
		harm func(client.Object)
		is   func(client.Object) any
	}{
		"ConfigMap": {
			harm: func(o client.Object) { o.(*corev1.ConfigMap).Data["index.html"] = "defaced" },
			is:   func(o client.Object) any { return o.(*corev1.ConfigMap).Data },
		},
		"Deployment": {
			harm: func(o client.Object) { o.(*appsv1.Deployment).Spec.Replicas = new(int32(5)) },
			is:   func(o client.Object) any { return o.(*appsv1.Deployment).Spec },
		},
		"Service": {
			harm: func(o client.Object) { o.(*corev1.Service).Spec.Selector = map[string]string{"app": "mine"} },
			is:   func(o client.Object) any { return o.(*corev1.Service).Spec.Selector },
		},
		"Ingress": {
			harm: func(o client.Object) { o.(*networkingv1.Ingress).Spec.IngressClassName = new("mine") },
			is:   func(o client.Object) any { return o.(*networkingv1.Ingress).Spec },
		},
	} {
		s.t.Run(kind, func(t *testing.T) {
			s := s.scenario(t)
			before := s.waitForChildren(created)[kind]
			want := test.is(before)
			harmed, _ := before.DeepCopyObject().(client.Object)
			test.harm(harmed)
			s.Expect(s.Client.Patch(t.Context(), harmed, client.MergeFrom(before))).To(Succeed()) // regardless of its version
			s.Expect(harmed.GetResourceVersion()).NotTo(Equal(before.GetResourceVersion()))
			s.Eventually(func(g Gomega) any { return test.is(s.children(g, created)[kind]) }).Should(Equal(want))

			s.Expect(s.Client.Delete(t.Context(), before)).To(Succeed())
			s.Eventually(func(g Gomega) {
				after := s.waitForChildren(created)[kind]
				g.Expect(after.GetUID()).NotTo(Equal(before.GetUID()))
			}).Should(Succeed())
		})
	}
}

// themeChanges: a changed Theme changes the pages of all Websites that use it, and only these are reconciled.
func themeChanges(s *scenario) {
	s.changeTheme("changed")
	s.changeTheme("kept")
	for _, name := range []string{"changed-a", "changed-b", "changed-c"} {
		s.waitForChildren(s.create(name, "changed", nil))
	}
	kept := s.create("kept", "kept", nil)
	s.waitForChildren(kept)
	s.waitForPhase(kept, "Pending")
	s.waitUntilIdle()

	before, began := s.pages(s)["kept"], time.Now()
	s.waitForColor("changed", s.changeTheme("changed"))
	s.waitUntilIdle()
	s.Expect(s.pages(s)["kept"]).To(Equal(before))
	s.Expect(slices.Sorted(maps.Keys(s.workers(began)))).To(Equal([]string{"changed-a", "changed-b", "changed-c"}))
}

// workers returns which instances have started to reconcile each Website since a time.
func (s *scenario) workers(since time.Time) map[string]map[string]bool {
	workers := map[string]map[string]bool{}
	for _, event := range s.allReconciles() {
		if event.Type != history.Started || event.Time.Before(since) {
			continue
		}
		name := event.Reconcile.Object.Name
		if workers[name] == nil {
			workers[name] = map[string]bool{}
		}
		workers[name][event.Shard] = true
	}
	return workers
}

// themeIsMissing: the status of a Website shows it, and the Website recovers when the Theme is created.
func themeIsMissing(s *scenario) {
	created := s.create("hopeful", "hoped-for", nil)
	s.waitForPhase(created, "Error")
	color := s.changeTheme("hoped-for")
	s.waitForColor("hoped-for", color)
	s.waitForPhase(created, "Pending")
}

// generatesNames: a Website with a generated name is reconciled.
func generatesNames(s *scenario) {
	s.changeTheme("generated")
	for range 3 {
		s.waitForChildren(s.create("generated-", "generated", nil))
	}
}

// themeOfMany: the pages of many Websites change with their Theme, and only its owner reconciles each Website.
func themeOfMany(s *scenario, many int) {
	color := s.changeTheme("many")
	s.createMany("many", many)
	s.waitForColor("many", color)
	s.waitUntilIdle()
	before := s.websites(s, "many")

	began := time.Now()
	s.waitForColor("many", s.changeTheme("many"))
	s.waitUntilIdle()
	workers := s.workers(began)
	s.Expect(workers).To(HaveLen(many))
	leader := ""
	if !s.mode.sharded() {
		leader = s.victim().name
	}
	shares := map[string]int{}
	for name, found := range s.websites(s, "many") {
		owner := leader
		if s.mode.sharded() {
			owner = found.GetLabels()[shardingv1alpha1.LabelShard(ring)]
			s.Expect(before[name].GetLabels()).To(HaveKeyWithValue(shardingv1alpha1.LabelShard(ring), owner))
		}
		s.Expect(workers[name]).To(Equal(map[string]bool{owner: true}), name)
		shares[owner]++
	}
	s.t.Log(shares)
	if s.mode.sharded() {
		s.Expect(shares).To(HaveLen(instances))
	}
}
