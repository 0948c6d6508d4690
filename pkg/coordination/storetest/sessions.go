package storetest

import (
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func (s *suite) sessionsEndWithClose() {
	session, other := s.open(s.first), s.open(s.first)
	s.Expect(session.ID()).NotTo(gomega.Equal(other.ID()), "IDs are never used again")
	s.commit(s.first,
		kv.PutFor(session, s.key("a"), "ends"), kv.PutFor(session, s.key("b/c"), "ends"),
		kv.PutFor(other, s.key("other"), "stays"), kv.Put(s.key("none"), "stays"))
	found := s.read(s.second).Entries
	s.Expect(found[s.key("a")].Session).To(gomega.Equal(session.ID()))
	s.Expect(found[s.key("other")].Session).To(gomega.Equal(other.ID()))
	s.Expect(found[s.key("none")].Session).To(gomega.BeEmpty())
	s.Expect(session.Lost()).NotTo(gomega.BeClosed())

	before := s.read(s.second).Revision
	s.close(session)
	s.Expect(session.Lost()).To(gomega.BeClosed())
	s.Expect(other.Lost()).NotTo(gomega.BeClosed())
	if diff := cmp.Diff(map[string]string{"other": "stays", "none": "stays"}, s.values(s.second)); diff != "" {
		s.Errorf("left (-want +got):\n%s", diff)
	}
	s.Expect(s.read(s.second).Revision).To(gomega.BeNumerically(">", before), "the end of a session is a change")
	s.close(session) // idempotent
}

func (s *suite) entriesChangeTheirSession() {
	session, other := s.open(s.first), s.open(s.second)
	s.commit(s.first,
		kv.PutFor(session, s.key("kept"), "1"), kv.PutFor(session, s.key("moved"), "1"),
		kv.Put(s.key("given"), "1"), kv.PutFor(session, s.key("deleted"), "1"))
	s.commit(s.second,
		kv.Put(s.key("kept"), "2"), kv.PutFor(other, s.key("moved"), "2"),
		kv.PutFor(other, s.key("given"), "2"), kv.Delete(s.key("deleted")))
	s.commit(s.second, kv.Put(s.key("deleted"), "3"))
	s.close(session)
	if diff := cmp.Diff(map[string]string{"kept": "2", "moved": "2", "given": "2", "deleted": "3"}, s.values(s.first)); diff != "" {
		s.Errorf("after the first session (-want +got):\n%s", diff)
	}
	s.close(other)
	if diff := cmp.Diff(map[string]string{"kept": "2", "deleted": "3"}, s.values(s.first)); diff != "" {
		s.Errorf("after the second session (-want +got):\n%s", diff)
	}
}

func (s *suite) endedSessionsAreRefused() {
	session := s.open(s.first)
	s.close(session)
	for name, process := range map[string]Process{"its own process": s.first, "another process": s.second} {
		_, err := process.Store.Commit(s.Context(), kv.Transaction{Then: []kv.Operation{
			kv.Put(s.key("with it"), ""), kv.PutFor(session, s.key("session"), ""),
		}})
		s.Expect(err).To(gomega.MatchError(kv.ErrSessionLost), name)
	}
	s.Expect(s.values(s.second)).To(gomega.BeEmpty())
}

// sessionsLiveWithTheirProcess keeps a session for longer than its duration.
func (s *suite) sessionsLiveWithTheirProcess() {
	session := s.open(s.first)
	s.commit(s.first, kv.PutFor(session, s.key("a"), "alive"))
	want := map[string]string{"a": "alive"}
	s.Consistently(func() map[string]string { return s.values(s.second) }, sessionDuration*2, sessionDuration/10).Should(gomega.Equal(want))
	s.Expect(session.Lost()).NotTo(gomega.BeClosed())
	s.close(session)
}

// sessionsDieWithTheirProcess kills the owner of a session. Its session must count as lost before others see its end.
func (s *suite) sessionsDieWithTheirProcess() {
	session, survivor := s.open(s.first), s.open(s.second)
	s.commit(s.first, kv.PutFor(session, s.key("a"), "dies"), kv.Put(s.key("none"), "stays"))
	s.commit(s.second, kv.PutFor(survivor, s.key("b"), "stays"))
	s.first.Kill()
	known := func() bool {
		select {
		case <-session.Lost():
			return true
		default:
			return false
		}
	}
	s.Eventually(func() map[string]string {
		found := s.values(s.second)
		if _, there := found["a"]; !there && !known() {
			s.Error("the session ended before it was lost for its owner")
		}
		return found
	}, eventTimeout, sessionDuration/50).Should(gomega.Equal(map[string]string{"b": "stays", "none": "stays"}))
	_, err := s.second.Store.Commit(s.Context(), kv.Transaction{Then: []kv.Operation{kv.PutFor(session, s.key("a"), "")}})
	s.Expect(err).To(gomega.MatchError(kv.ErrSessionLost))
	s.Expect(survivor.Lost()).NotTo(gomega.BeClosed())
}
