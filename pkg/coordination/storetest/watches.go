package storetest

import (
	"context"
	"maps"

	"github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// watcher watches a path and reads after each signal.
type watcher struct {
	*suite
	process Process
	signals <-chan struct{}
}

// startWatching returns a watcher of the path a.
func (s *suite) startWatching(process Process) *watcher {
	s.Helper()
	return &watcher{s, process, s.watch(s.Context(), process)}
}

// awaitSignal waits for a signal.
func (e *watcher) awaitSignal(description string) {
	e.Helper()
	late, cancel := context.WithTimeout(e.Context(), eventTimeout)
	defer cancel()
	select {
	case _, open := <-e.signals:
		if !open {
			e.Fatalf("%s: the watch has ended", description)
		}
	case <-late.Done():
		e.Fatalf("%s: no signal", description)
	}
}

// expect calls a function and then reads after each signal, until the values are as expected.
func (e *watcher) expect(description string, do func(), want map[string]string) {
	e.Helper()
	for stale := true; stale; { // discard earlier signals
		select {
		case <-e.signals:
		default:
			stale = false
		}
	}
	do()
	for {
		e.awaitSignal(description)
		var got map[string]string
		e.Eventually(func() (err error) { // the connection may be broken
			got, err = e.tryValues(e.process)
			return err
		}, eventTimeout).Should(gomega.Succeed(), description)
		if maps.Equal(got, want) {
			return
		}
	}
}

func (s *suite) watchesSignalChanges() {
	e := s.startWatching(s.second)
	commits := func(by Process, operation kv.Operation) func() { return func() { s.commit(by, operation) } }
	e.expect("a put at the path", commits(s.first, kv.Put(s.key("a"), "1")), map[string]string{"a": "1"})
	e.expect("a put below", commits(s.first, kv.Put(s.key("a/b"), "2")), map[string]string{"a": "1", "a/b": "2"})
	e.expect("another value", commits(s.first, kv.Put(s.key("a/b"), "3")), map[string]string{"a": "1", "a/b": "3"})
	e.expect("a delete", commits(s.first, kv.Delete(s.key("a/b"))), map[string]string{"a": "1"})
	e.expect("its own delete", commits(s.second, kv.DeleteBelow(s.key("a"))), map[string]string{})
}

func (s *suite) watchesSignalTheEndOfSessions() {
	e := s.startWatching(s.second)
	closed, dying := s.open(s.first), s.open(s.first)
	e.expect("entries of sessions", func() {
		s.commit(s.first, kv.PutFor(closed, s.key("a/closed"), ""), kv.PutFor(dying, s.key("a/dying"), ""))
	}, map[string]string{"a/closed": "", "a/dying": ""})
	e.expect("a session that was closed", func() { s.close(closed) }, map[string]string{"a/dying": ""})
	e.expect("a session whose process has died", s.first.Kill, map[string]string{})
}

func (s *suite) watchesEndWithTheirContext() {
	ctx, stop := context.WithCancel(s.Context())
	signals := s.watch(ctx, s.first)
	stop()
	s.Eventually(func() bool {
		_, open := <-signals
		return open
	}, eventTimeout).Should(gomega.BeFalse())
}

func (s *suite) watchesOutliveConnections() {
	e := s.startWatching(s.second)
	for _, value := range []string{"first", "second", "third"} {
		e.expect(value+" time", func() {
			if s.second.Interrupt != nil {
				s.second.Interrupt()
			}
			s.commit(s.first, kv.Put(s.key("a/b"), value))
		}, map[string]string{"a/b": value})
	}
}
