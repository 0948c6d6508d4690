package storetest

import (
	"context"
	"maps"

	"github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// hears waits until who reads after each signal has seen what is expected.
func (s *suite) hears(signals <-chan struct{}, process Process, want map[string]string, description string) {
	s.Helper()
	late, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		var got map[string]string
		s.Eventually(func() (err error) { // the connection may have been broken
			got, err = s.tryValues(process)
			return err
		}, patience).Should(gomega.Succeed(), description)
		if maps.Equal(got, want) {
			return
		}
		select {
		case _, open := <-signals:
			if !open {
				s.Fatalf("%s: the watch has ended", description)
			}
		case <-late.Done():
			s.Fatalf("%s: there was no signal since it was %v", description, got)
		}
	}
}

func (s *suite) watchesSignalChanges() {
	signals := s.watch(s.Context(), s.second)
	s.commit(s.first, coordination.Put(s.key("a"), "1"))
	s.hears(signals, s.second, map[string]string{"a": "1"}, "a put at the path")
	s.commit(s.first, coordination.Put(s.key("a/b"), "2"))
	s.hears(signals, s.second, map[string]string{"a": "1", "a/b": "2"}, "a put below")
	s.commit(s.first, coordination.Put(s.key("a/b"), "3"))
	s.hears(signals, s.second, map[string]string{"a": "1", "a/b": "3"}, "another value")
	s.commit(s.first, coordination.Delete(s.key("a/b")))
	s.hears(signals, s.second, map[string]string{"a": "1"}, "a delete")
	s.commit(s.second, coordination.DeleteBelow(s.key("a")))
	s.hears(signals, s.second, map[string]string{}, "its own delete")
}

func (s *suite) watchesSignalTheEndOfSessions() {
	signals := s.watch(s.Context(), s.second)
	closed, dying := s.open(s.first), s.open(s.first)
	s.commit(s.first, coordination.PutFor(closed, s.key("a/closed"), ""), coordination.PutFor(dying, s.key("a/dying"), ""))
	s.hears(signals, s.second, map[string]string{"a/closed": "", "a/dying": ""}, "entries of sessions")
	s.close(closed)
	s.hears(signals, s.second, map[string]string{"a/dying": ""}, "a session that was closed")
	s.first.Kill()
	s.hears(signals, s.second, map[string]string{}, "a session whose process has died")
}

func (s *suite) watchesEndWithTheirContext() {
	ctx, stop := context.WithCancel(s.Context())
	signals := s.watch(ctx, s.first)
	stop()
	s.Eventually(func() bool {
		_, open := <-signals
		return open
	}, patience).Should(gomega.BeFalse())
}

func (s *suite) watchesOutliveConnections() {
	signals := s.watch(s.Context(), s.second)
	for i, value := range []string{"1", "2", "3"} {
		if s.second.Interrupt != nil {
			s.second.Interrupt()
		}
		s.commit(s.first, coordination.Put(s.key("a/b"), value))
		s.hears(signals, s.second, map[string]string{"a/b": value}, "the "+[]string{"first", "second", "third"}[i]+" time")
	}
}
