//go:build faults

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// prefixes gives who acts and another one other prefixes in the middle of a plan, and their old ones back afterwards.
func (s *scene) prefixes() {
	s.midPlan(nothing, func(v *view) bool {
		holder := s.of(v.Lock.Holder)
		other := s.others(holder)[1]
		s.rename("x", holder, other)
		over := overSince(v)
		now := s.until(func(v *view) bool {
			return over(v) || v.Present(holder.prefix+"x") && v.Present(other.prefix+"x")
		})
		return !over(now)
	})
	changed := slices.DeleteFunc(slices.Clone(s.regions), func(r *region) bool {
		return r.get().Spec.ProcessGroupIDPrefix == etcdclusterv1alpha1.Prefix(r.prefix)
	})
	for _, r := range changed {
		s.Expect(s.keysOf(r.prefix)).To(BeEmpty(), "all that it had said has its new prefix")
	}
	s.rename("", changed...)
	s.until(func(v *view) bool { return len(v.Absent("dc1", "dc2", "dc3")) == 0 && len(v.Instances) == 3 })
	s.settled()
}

// rename gives regions other prefixes, and tells all.
func (s *scene) rename(suffix string, renamed ...*region) {
	s.t.Helper()
	for _, r := range renamed {
		r.edit(func(spec *spec) { spec.ProcessGroupIDPrefix = etcdclusterv1alpha1.Prefix(r.prefix + suffix) })
	}
	var prefixes []etcdclusterv1alpha1.Prefix
	for _, r := range s.regions {
		prefixes = append(prefixes, r.get().Spec.ProcessGroupIDPrefix)
	}
	s.editAll(func(spec *spec) { spec.Regions = prefixes })
}

// keysOf are those that have a prefix.
func (s *scene) keysOf(prefix string) []string {
	s.t.Helper()
	root := coordination.DefaultRoot + "/" + clusterName
	found, err := s.met.Read(context.Background(), root)
	s.Expect(err).NotTo(HaveOccurred())
	var keys []string
	for key := range found.Entries {
		if at := strings.Split(strings.TrimPrefix(key, root+"/"), "/"); len(at) > 1 && at[1] == prefix {
			keys = append(keys, key)
		}
	}
	return keys
}

// mode sets how a region's operator goes about it.
func (r *region) mode(mode etcdclusterv1alpha1.SynchronizationMode) {
	r.w.t.Helper()
	r.edit(func(spec *spec) { spec.AutomationOptions.SynchronizationMode = mode })
}

// obeyingGoesLocal lets one that does not act leave the others in the middle of a plan. They say so, and it does its
// part alone.
func (s *scene) obeyingGoesLocal() {
	var left *region
	s.midPlan(nothing, func(v *view) bool {
		left = s.others(s.of(v.Lock.Holder))[1]
		return s.goesLocal(left, v)
	})
	s.returns(left)
}

// actingGoesLocal lets the one that acts leave the others in the middle of a plan: another one goes on.
func (s *scene) actingGoesLocal() {
	var left *region
	s.midPlan(nothing, func(v *view) bool {
		left = s.of(v.Lock.Holder)
		return s.goesLocal(left, v) && s.taken(v) != nil
	})
	s.returns(left)
}

// goesLocal lets a region leave, and tells whether that was before a plan was done.
func (s *scene) goesLocal(r *region, v *view) bool {
	s.t.Helper()
	r.mode(etcdclusterv1alpha1.SynchronizationLocal)
	s.until(func(v *view) bool { return !v.Present(r.prefix) })
	s.Expect(s.keysOf(r.prefix)).To(BeEmpty())
	in := s.amid(v)
	for _, other := range s.others(r) {
		mixed := s.reports(other, coordination.ConditionCoordinated, coordination.ReasonMixedModes)
		s.Expect(mixed.Message).To(ContainSubstring(r.prefix))
	}
	if !in {
		s.returns(r)
	}
	return in
}

// returns lets a region take part again.
func (s *scene) returns(r *region) {
	s.t.Helper()
	r.mode(etcdclusterv1alpha1.SynchronizationGlobal)
	for _, r := range s.regions {
		s.reports(r, coordination.ConditionCoordinated, coordination.ReasonSettled)
	}
	s.settled()
}

// localCrashes kills an operator in local mode that has removed a member and not yet stopped it. Nobody else knows what
// it was at.
func (s *scene) localCrashes() {
	r := s.regions[0]
	for _, r := range s.regions {
		r.mode(etcdclusterv1alpha1.SynchronizationLocal)
	}
	s.until(func(v *view) bool { return len(v.Instances) == 0 })
	s.settled()
	left := false
	for attempt := 0; attempt < attempts && !left; attempt++ {
		old := r.id()
		r.replace()
		s.Eventually(func() bool {
			state := s.seen()
			if state == nil {
				return false
			}
			_, known := state.Known(string(old), "")
			return !known
		}).WithPolling(5 * time.Millisecond).Should(BeTrue())
		s.Expect(r.operator.Kill()).To(Succeed())
		left = r.member(old).ID != ""
		r.again()
		s.settled()
		s.Expect(r.id()).NotTo(Equal(old))
	}
	s.Expect(left).To(BeTrue(), "it was always faster")
	for _, r := range s.regions {
		r.mode(etcdclusterv1alpha1.SynchronizationGlobal)
	}
	s.until(func(v *view) bool { return len(v.Instances) == 3 })
	s.settled()
}
