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

// prefixesChange changes the prefixes of the holder and of another operator during a plan, and back afterwards.
func (s *faultTest) prefixesChange() {
	s.duringPlan(noop, func(v *view) bool {
		holder := s.operatorRegion(v.Lock.Holder)
		other := s.otherRegions(holder)[1]
		s.changePrefixes("x", holder, other)
		ended := endedSince(v)
		now := s.awaitView(func(v *view) bool {
			return ended(v) || v.Present(holder.prefix+"x") && v.Present(other.prefix+"x")
		})
		return !ended(now)
	})
	changed := slices.DeleteFunc(slices.Clone(s.regions), func(r *region) bool {
		return r.get().Spec.ProcessGroupIDPrefix == etcdclusterv1alpha1.Prefix(r.prefix)
	})
	for _, r := range changed {
		s.Expect(s.keysOf(r.prefix)).To(BeEmpty(), "all that it had said has its new prefix")
	}
	s.changePrefixes("", changed...)
	s.awaitView(func(v *view) bool { return len(v.Absent("dc1", "dc2", "dc3")) == 0 && len(v.Instances) == 3 })
	s.awaitSettled()
}

// changePrefixes changes the prefixes of regions, in all specs.
func (s *faultTest) changePrefixes(suffix string, renamed ...*region) {
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

// keysOf returns the keys with a prefix.
func (s *faultTest) keysOf(prefix string) []string {
	s.t.Helper()
	root := coordination.DefaultRoot + "/" + clusterName
	found, err := s.coordinationStore.Read(context.Background(), root)
	s.Expect(err).NotTo(HaveOccurred())
	var keys []string
	for key := range found.Entries {
		if segments := strings.Split(strings.TrimPrefix(key, root+"/"), "/"); len(segments) > 1 && segments[1] == prefix {
			keys = append(keys, key)
		}
	}
	return keys
}

// setMode sets the mode of a region.
func (r *region) setMode(mode etcdclusterv1alpha1.SynchronizationMode) {
	r.f.t.Helper()
	r.edit(func(spec *spec) { spec.AutomationOptions.SynchronizationMode = mode })
}

// executorGoesLocal switches an operator that is not the holder to local mode during a plan. The others report
// that, and it acts on its members alone.
func (s *faultTest) executorGoesLocal() {
	var left *region
	s.duringPlan(noop, func(v *view) bool {
		left = s.otherRegions(s.operatorRegion(v.Lock.Holder))[1]
		return s.leaveToLocal(left, v)
	})
	s.returnToGlobal(left)
}

// holderGoesLocal switches the holder to local mode during a plan: another operator continues.
func (s *faultTest) holderGoesLocal() {
	var left *region
	s.duringPlan(noop, func(v *view) bool {
		left = s.operatorRegion(v.Lock.Holder)
		return s.leaveToLocal(left, v) && s.awaitTakeover(v) != nil
	})
	s.returnToGlobal(left)
}

// leaveToLocal switches a region to local mode, and reports whether that was before the end of a plan.
func (s *faultTest) leaveToLocal(r *region, v *view) bool {
	s.t.Helper()
	r.setMode(etcdclusterv1alpha1.SynchronizationLocal)
	s.awaitView(func(v *view) bool { return !v.Present(r.prefix) })
	s.Expect(s.keysOf(r.prefix)).To(BeEmpty())
	in := s.isInProgress(v)
	for _, other := range s.otherRegions(r) {
		mixed := s.awaitReason(other, coordination.ConditionCoordinated, coordination.ReasonMixedModes)
		s.Expect(mixed.Message).To(ContainSubstring(r.prefix))
	}
	if !in {
		s.returnToGlobal(r)
	}
	return in
}

// returnToGlobal switches a region back to global mode.
func (s *faultTest) returnToGlobal(r *region) {
	s.t.Helper()
	r.setMode(etcdclusterv1alpha1.SynchronizationGlobal)
	for _, r := range s.regions {
		s.awaitReason(r, coordination.ConditionCoordinated, coordination.ReasonSettled)
	}
	s.awaitSettled()
}

// localOperatorCrashes kills an operator in local mode that has removed a member and not stopped it yet. The
// store does not record its action.
func (s *faultTest) localOperatorCrashes() {
	r := s.regions[0]
	for _, r := range s.regions {
		r.setMode(etcdclusterv1alpha1.SynchronizationLocal)
	}
	s.awaitView(func(v *view) bool { return len(v.Instances) == 0 })
	s.awaitSettled()
	left := false
	for attempt := 0; attempt < maxAttempts && !left; attempt++ {
		old := r.id()
		r.replaceMembers()
		s.Eventually(func() bool {
			state := s.trySystemState()
			if state == nil {
				return false
			}
			_, known := state.Known(string(old), "")
			return !known
		}).WithPolling(5 * time.Millisecond).Should(BeTrue())
		s.Expect(r.operator.Kill()).To(Succeed())
		left = r.member(old).ID != ""
		r.restartOperator()
		s.awaitSettled()
		s.Expect(r.id()).NotTo(Equal(old))
	}
	s.Expect(left).To(BeTrue(), "it was always faster")
	for _, r := range s.regions {
		r.setMode(etcdclusterv1alpha1.SynchronizationGlobal)
	}
	s.awaitView(func(v *view) bool { return len(v.Instances) == 3 })
	s.awaitSettled()
}
