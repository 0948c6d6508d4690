package system

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// ID is etcd's own number of a member.
type ID uint64

// String returns the ID as etcd shows it, in hexadecimal digits.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 16) }

// ParseID reads what String has written.
func ParseID(s string) (ID, error) {
	id, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no ID of an etcd member: %w", s, err)
	}
	return ID(id), nil
}

// State is what is known of the system at one time.
type State struct {
	// Cluster is etcd's number of the whole system.
	Cluster ID
	// Agreed tells whether a quorum has confirmed the list of members. Without that it is what one member remembers,
	// to be shown and not to be acted upon.
	Agreed bool
	// Leader is 0 when those who answered agree on none.
	Leader ID
	// Members are sorted by name, then by ID.
	Members []Member
}

// Member is one of the system.
type Member struct {
	ID ID
	// Name is what we call the member. It is empty until it has been started for the first time.
	Name       string
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
	Health     Health
}

// Health is what a member says of itself.
type Health struct {
	// Reachable is whether it has answered.
	Reachable bool
	// Problem says why it has not, or what it complains about.
	Problem string
	// Leader is whom it takes for the leader, 0 for nobody.
	Leader ID
	Term   uint64
	// Index is the last entry that it knows, Applied the last that it has carried out, and Lag how many entries the
	// one that is furthest has more.
	Index   uint64
	Applied uint64
	Lag     uint64
	Version string
}

// Healthy tells whether the member answers, follows a leader and complains about nothing.
func (m Member) Healthy() bool {
	return m.Health.Reachable && m.Health.Leader != 0 && m.Health.Problem == ""
}

// CaughtUp tells whether the member has about all that the others have. While clients write, none has exactly all.
func (m Member) CaughtUp() bool {
	const few = 1000
	return m.Health.Lag <= few
}

// Voters are the members that count.
func (s *State) Voters() []Member {
	return slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return m.Learner })
}

// Quorum is how many voters have to agree.
func (s *State) Quorum() int { return len(s.Voters())/2 + 1 }

// HasQuorum tells whether enough of the voters are healthy.
func (s *State) HasQuorum() bool { return s.Agreed && s.healthyVoters(0) >= s.Quorum() }

// Spares tells whether the system keeps its quorum while this member does not run.
func (s *State) Spares(id ID) bool { return s.Agreed && s.healthyVoters(id) >= s.Quorum() }

// SparesForever tells whether the system keeps its quorum when this member is removed.
func (s *State) SparesForever(id ID) bool {
	voters := len(s.Voters())
	if m, found := s.Member(id); found && !m.Learner {
		voters--
	}
	return s.Agreed && voters > 0 && s.healthyVoters(id) >= voters/2+1
}

// Settled tells whether all members are healthy, vote and agree on one leader.
func (s *State) Settled() bool {
	return s.Agreed && s.Leader != 0 && len(s.Members) > 0 &&
		!slices.ContainsFunc(s.Members, func(m Member) bool { return m.Learner || !m.Healthy() || m.Health.Leader != s.Leader })
}

func (s *State) healthyVoters(without ID) int {
	healthy := 0
	for _, m := range s.Voters() {
		if m.ID != without && m.Healthy() {
			healthy++
		}
	}
	return healthy
}

// Member returns the one with an ID.
func (s *State) Member(id ID) (Member, bool) {
	return s.find(func(m Member) bool { return m.ID == id })
}

// Named returns the one with a name.
func (s *State) Named(name string) (Member, bool) {
	return s.find(func(m Member) bool { return m.Name == name && name != "" })
}

// At returns the one with a peer URL, which is all that a member has before it is started.
func (s *State) At(peerURL string) (Member, bool) {
	return s.find(func(m Member) bool { return slices.Contains(m.PeerURLs, peerURL) })
}

func (s *State) find(is func(Member) bool) (Member, bool) {
	if at := slices.IndexFunc(s.Members, is); at >= 0 {
		return s.Members[at], true
	}
	return Member{}, false
}

// ClientURLs are where clients reach the members, all of them.
func (s *State) ClientURLs() []string {
	var urls []string
	for _, m := range s.Members {
		urls = append(urls, m.ClientURLs...)
	}
	return urls
}

// judge completes what follows from the members' own words.
func (s *State) judge() {
	slices.SortFunc(s.Members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	var furthest, term uint64
	for _, m := range s.Members {
		furthest = max(furthest, m.Health.Index)
		// Who is in a later term has heard of the leader last.
		if m.Health.Leader != 0 && m.Health.Term > term {
			term, s.Leader = m.Health.Term, m.Health.Leader
		}
	}
	for i := range s.Members {
		if health := &s.Members[i].Health; health.Reachable {
			health.Lag = furthest - min(furthest, health.Applied)
		}
	}
}
