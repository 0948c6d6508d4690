package storetest

import (
	"context"
	"maps"

	"github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// ears are those of somebody who watches a path and reads after each signal.
type ears struct {
	*suite
	process Process
	signals <-chan struct{}
}

// listen watches the path.
func (s *suite) listen(process Process) *ears {
	s.Helper()
	return &ears{s, process, s.watch(s.Context(), process)}
}

// signal waits for one.
func (e *ears) signal(description string) {
	e.Helper()
	late, cancel := context.WithTimeout(e.Context(), patience)
	defer cancel()
	select {
	case _, open := <-e.signals:
		if !open {
			e.Fatalf("%s: the watch has ended", description)
		}
	case <-late.Done():
		e.Fatalf("%s: there was no signal", description)
	}
}

// hears does something, and reads after each signal since, until it is what is expected. It does not read without one.
func (e *ears) hears(description string, do func(), want map[string]string) {
	e.Helper()
	for stale := true; stale; { // from before
		select {
		case <-e.signals:
		default:
			stale = false
		}
	}
	do()
	for {
		e.signal(description)
		var got map[string]string
		e.Eventually(func() (err error) { // the connection may have been broken
			got, err = e.tryValues(e.process)
			return err
		}, patience).Should(gomega.Succeed(), description)
		if maps.Equal(got, want) {
			return
		}
	}
}

func (s *suite) watchesSignalChanges() {
	e := s.listen(s.second)
	commits := func(by Process, operation kv.Operation) func() { return func() { s.commit(by, operation) } }
	e.hears("a put at the path", commits(s.first, kv.Put(s.key("a"), "1")), map[string]string{"a": "1"})
	e.hears("a put below", commits(s.first, kv.Put(s.key("a/b"), "2")), map[string]string{"a": "1", "a/b": "2"})
	e.hears("another value", commits(s.first, kv.Put(s.key("a/b"), "3")), map[string]string{"a": "1", "a/b": "3"})
	e.hears("a delete", commits(s.first, kv.Delete(s.key("a/b"))), map[string]string{"a": "1"})
	e.hears("its own delete", commits(s.second, kv.DeleteBelow(s.key("a"))), map[string]string{})
}

func (s *suite) watchesSignalTheEndOfSessions() {
	e := s.listen(s.second)
	closed, dying := s.open(s.first), s.open(s.first)
	e.hears("entries of sessions", func() {
		s.commit(s.first, kv.PutFor(closed, s.key("a/closed"), ""), kv.PutFor(dying, s.key("a/dying"), ""))
	}, map[string]string{"a/closed": "", "a/dying": ""})
	e.hears("a session that was closed", func() { s.close(closed) }, map[string]string{"a/dying": ""})
	e.hears("a session whose process has died", s.first.Kill, map[string]string{})
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
	e := s.listen(s.second)
	for _, value := range []string{"first", "second", "third"} {
		e.hears(value+" time", func() {
			if s.second.Interrupt != nil {
				s.second.Interrupt()
			}
			s.commit(s.first, kv.Put(s.key("a/b"), value))
		}, map[string]string{"a/b": value})
	}
}
