//go:build faults

package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// The network between the members is cut during a plan, while the operators reach all members. No other member
// is disturbed before the network is healed, and every member is restarted once.
func TestMemberPartitions(t *testing.T) {
	network := newPeerNetwork(t)
	o := faultOptions()
	o.prepare = network.prepare
	w := start(t, o)
	for _, r := range w.regions {
		w.Expect(network.bytesTo(r.prefix)).To(BeNumerically(">", 0), "the members of %s are reached through the network", r.prefix)
	}
	runFaults(t, w, []faultCase{
		{"the leader is isolated", func(s *faultTest) { s.cutMember(network, s.leaderName, Both) }},
		{"a follower is isolated", func(s *faultTest) { s.cutMember(network, s.follower, Both) }},
		{"messages of the leader are lost", func(s *faultTest) { s.cutMember(network, s.leaderName, From) }},
		{"messages to the leader are lost", func(s *faultTest) { s.cutMember(network, s.leaderName, To) }},
		{"messages of a follower are lost", func(s *faultTest) { s.cutMember(network, s.follower, From) }},
		{"messages to a follower are lost", func(s *faultTest) { s.cutMember(network, s.follower, To) }},
		{"messages between two followers are lost", func(s *faultTest) { s.cutMember(network, s.follower, Between) }},
	})
	w.checkHistory()
}

// partition defines which messages of a member are held back.
type partition int

const (
	// Both isolates a member. From holds back its messages, To the messages to it, Between the messages between it
	// and another follower, while the leader reaches both.
	Both partition = iota
	From
	To
	Between
)

// links returns the links that a partition cuts, between a region and the others, given the leader's region.
func (c partition) links(region string, others []string, leads string) (all []link) {
	for _, other := range others {
		if c == Between && other == leads {
			continue
		}
		if c != To {
			all = append(all, link{region, other})
		}
		if c != From {
			all = append(all, link{other, region})
		}
	}
	return all
}

// follower returns the name of a member that is not the leader.
func (s *faultTest) follower() string {
	s.t.Helper()
	leader := s.leaderName()
	for _, name := range s.voterNames() {
		if name != leader {
			return name
		}
	}
	s.t.Fatal("no follower found")
	return ""
}

// cutMember cuts a member off from the others during a plan, for longer than elections and sessions take.
func (s *faultTest) cutMember(network *peerNetwork, which func() string, how partition) {
	const lasts = 6 * time.Second
	s.duringPlan(noop, func(v *view) bool {
		name, leader := which(), s.leaderName()
		cut := s.memberRegion(coordination.MemberID(name))
		var others []string
		for _, r := range s.otherRegions(cut) {
			others = append(others, r.prefix)
		}
		network.cut(how.links(cut.prefix, others, s.memberRegion(coordination.MemberID(leader)).prefix)...)
		defer func() { s.Expect(network.heal()).To(BeNumerically(">", 0), "something was held back") }()
		deadline := time.Now().Add(lasts)
		if how == Both || how == To && name != leader {
			// After decisions that could not know of the partition, the system can only spare the member that is cut off.
			s.Eventually(func() bool { return s.runsWithout(name) }).Should(BeTrue(), "%s is missed", name)
			ordered := ""
			if now := s.readView(); currentStep(now) != nil && currentStep(now).Order {
				ordered = string(currentStep(now).Member())
			}
			before, acknowledged := s.restartCounts(), s.writer.count()
			s.Consistently(func() map[string]int {
				others := s.restartsSince(before)
				delete(others, name)
				delete(others, ordered)
				return others
			}).WithTimeout(max(time.Until(deadline), lasts/3)).Should(BeEmpty())
			// A write and a read may each try the isolated member first.
			s.Eventually(s.writer.count).Should(BeNumerically(">", acknowledged), "the others are enough to write")
		}
		if name == leader && how != Between { // the new leader has to reach a quorum
			s.Eventually(s.leaderName).ShouldNot(Equal(name))
		}
		time.Sleep(time.Until(deadline))
		return s.isInProgress(v)
	})
}

// runsWithout reports whether the system has another leader, and the member is unhealthy.
func (s *faultTest) runsWithout(name string) bool {
	state := s.trySystemState()
	if state == nil {
		return false
	}
	m, known := state.Known(name, "")
	leader, led := state.Member(state.Leader)
	return known && led && leader.Name != name && !m.Healthy()
}
