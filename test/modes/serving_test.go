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

// serves: a Website gets all that belongs to it, and says how it goes.
func serves(s *scene) {
	s.paint("served")
	made := s.create("served", "served", nil)
	s.complete(made)
	s.says(made, "Pending")
	s.makeReady(made)
	s.says(made, "Ready")
}

// heals: what belongs to a Website is as it should be again when somebody has changed or deleted it.
func heals(s *scene) {
	s.paint("healed")
	made := s.create("healed", "healed", nil)
	s.complete(made)
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
			s := s.scene(t)
			before := s.complete(made)[kind]
			want := test.is(before)
			harmed, _ := before.DeepCopyObject().(client.Object)
			test.harm(harmed)
			s.Expect(s.Client.Patch(t.Context(), harmed, client.MergeFrom(before))).To(Succeed()) // whatever it is by now
			s.Expect(harmed.GetResourceVersion()).NotTo(Equal(before.GetResourceVersion()))
			s.Eventually(func(g Gomega) any { return test.is(s.family(g, made)[kind]) }).Should(Equal(want))

			s.Expect(s.Client.Delete(t.Context(), before)).To(Succeed())
			s.Eventually(func(g Gomega) {
				after := s.complete(made)[kind]
				g.Expect(after.GetUID()).NotTo(Equal(before.GetUID()))
			}).Should(Succeed())
		})
	}
}

// themeChanges: the pages of all Websites that use a Theme change with it, and only they are worked on.
func themeChanges(s *scene) {
	s.paint("changed")
	s.paint("kept")
	for _, name := range []string{"changed-a", "changed-b", "changed-c"} {
		s.complete(s.create(name, "changed", nil))
	}
	kept := s.create("kept", "kept", nil)
	s.complete(kept)
	s.says(kept, "Pending")
	s.resting()

	before, began := s.pages(s)["kept"], time.Now()
	s.painted("changed", s.paint("changed"))
	s.resting()
	s.Expect(s.pages(s)["kept"]).To(Equal(before))
	s.Expect(slices.Sorted(maps.Keys(s.workers(began)))).To(Equal([]string{"changed-a", "changed-b", "changed-c"}))
}

// workers are who has begun to work on which Website since a time.
func (s *scene) workers(since time.Time) map[string]map[string]bool {
	workers := map[string]map[string]bool{}
	for _, event := range s.worked() {
		if event.What != history.Started || event.Time.Before(since) {
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

// themeIsMissing: a Website says so, and recovers when the Theme is there.
func themeIsMissing(s *scene) {
	made := s.create("hopeful", "hoped-for", nil)
	s.says(made, "Error")
	color := s.paint("hoped-for")
	s.painted("hoped-for", color)
	s.says(made, "Pending")
}

// generatesNames: a Website is worked on although it had no name when it was asked for.
func generatesNames(s *scene) {
	s.paint("generated")
	for range 3 {
		s.complete(s.create("generated-", "generated", nil))
	}
}

// themeOfMany: the pages of many Websites change with their Theme, and each Website is worked on by who has
// it, and nobody else.
func themeOfMany(s *scene, many int) {
	color := s.paint("many")
	s.createMany("many", many)
	s.painted("many", color)
	s.resting()
	before := s.websites(s, "many")

	began := time.Now()
	s.painted("many", s.paint("many"))
	s.resting()
	workers := s.workers(began)
	s.Expect(workers).To(HaveLen(many))
	leader := ""
	if !s.mode.spread() {
		leader = s.first().name
	}
	shares := map[string]int{}
	for name, found := range s.websites(s, "many") {
		owner := leader
		if s.mode.spread() {
			owner = found.GetLabels()[shardingv1alpha1.LabelShard(ring)]
			s.Expect(before[name].GetLabels()).To(HaveKeyWithValue(shardingv1alpha1.LabelShard(ring), owner))
		}
		s.Expect(workers[name]).To(Equal(map[string]bool{owner: true}), name)
		shares[owner]++
	}
	s.t.Log(shares)
	if s.mode.spread() {
		s.Expect(shares).To(HaveLen(instances))
	}
}
