//go:build faults

package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// The network between the members themselves is cut while a plan is carried out: the operators reach all members, and the members
// do not reach each other. Nobody else is disturbed before it is whole again, and every member is restarted once.
func TestPartitions(t *testing.T) {
	network := newPeerNetwork(t)
	o := faulty()
	o.prepare = network.prepare
	w := begin(t, o)
	for _, r := range w.regions {
		w.Expect(network.carried(r.prefix)).To(BeNumerically(">", 0), "the members of %s are reached through the network", r.prefix)
	}
	play(t, w, []act{
		{"the leader is isolated", func(s *scene) { s.cutMember(network, s.leader, Both) }},
		{"a follower is isolated", func(s *scene) { s.cutMember(network, s.follower, Both) }},
		{"the leader is not heard", func(s *scene) { s.cutMember(network, s.leader, From) }},
		{"the leader hears nothing", func(s *scene) { s.cutMember(network, s.leader, To) }},
		{"a follower is not heard", func(s *scene) { s.cutMember(network, s.follower, From) }},
		{"a follower hears nothing", func(s *scene) { s.cutMember(network, s.follower, To) }},
		{"two regions do not hear each other", func(s *scene) { s.cutMember(network, s.follower, Between) }},
	})
	w.checkHistory()
}

// cutting says which messages of a member are held back.
type cutting int

const (
	// Both isolates a member. From holds back what it says, To what others say to it, Between what it and another follower say to
	// each other: the leader hears both.
	Both cutting = iota
	From
	To
	Between
)

// links are those between a region and the others, of which one leads.
func (c cutting) links(region string, others []string, leads string) (all []link) {
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

// follower is the name of a member that does not lead.
func (s *scene) follower() string {
	s.t.Helper()
	leader := s.leader()
	for _, name := range s.names() {
		if name != leader {
			return name
		}
	}
	s.t.Fatal("there is no follower")
	return ""
}

// cutMember cuts a member off from the others in the middle of a plan, for longer than elections and sessions take.
func (s *scene) cutMember(network *peerNetwork, which func() string, how cutting) {
	const lasts = 6 * time.Second
	s.midPlan(nothing, func(v *view) bool {
		name, leader := which(), s.leader()
		cut := s.owner(coordination.MemberID(name))
		var others []string
		for _, r := range s.others(cut) {
			others = append(others, r.prefix)
		}
		network.cut(how.links(cut.prefix, others, s.owner(coordination.MemberID(leader)).prefix)...)
		defer func() { s.Expect(network.heal()).To(BeNumerically(">", 0), "something was held back") }()
		deadline := time.Now().Add(lasts)
		if how == Both || how == To && name != leader {
			// What nobody could know when it was decided is over, and then the system spares nobody but the one that is cut off.
			s.Eventually(func() bool { return s.lacks(name) }).Should(BeTrue(), "%s is missed", name)
			ordered := ""
			if now := s.look(); present(now) != nil && present(now).Order {
				ordered = string(present(now).Member())
			}
			before, acknowledged := s.disturbed(), s.writer.count()
			s.Consistently(func() map[string]int {
				others := s.since(before)
				delete(others, name)
				delete(others, ordered)
				return others
			}).WithTimeout(max(time.Until(deadline), lasts/3)).Should(BeEmpty())
			// A write and a read may each wait for the one that is cut off first.
			s.Eventually(s.writer.count).Should(BeNumerically(">", acknowledged), "the others are enough to write")
		}
		if name == leader && how != Between { // it has to be followed and to hear that it is
			s.Eventually(s.leader).ShouldNot(Equal(name))
		}
		time.Sleep(time.Until(deadline))
		return s.amid(v)
	})
}

// lacks tells whether the system goes on without a member.
func (s *scene) lacks(name string) bool {
	state := s.seen()
	if state == nil {
		return false
	}
	m, known := state.Known(name, "")
	leader, led := state.Member(state.Leader)
	return known && led && leader.Name != name && !m.Healthy()
}
