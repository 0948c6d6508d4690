package history

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// The inputs of operations on stores.
type (
	// Read is kv.Store.Read.
	Read struct{ Paths []string }
	// Commit is kv.Store.Commit.
	Commit struct{ Transaction kv.Transaction }
	// End is the end of a session. It begins when the session is lost.
	End struct{ Session string }
)

// The outputs. That of a Read is a *kv.Snapshot.
type (
	// Done is the output of a Commit that took effect at the revision.
	Done struct{ Revision int64 }
	// Refused is the output of a Commit without effect, because of ErrConflict or ErrSessionLost.
	Refused struct{ Reason error }
	// Ended is the output of an End.
	Ended struct{}
)

// Store returns a store that records the operations of a client.
func (r *Recorder) Store(client int, store kv.Store) kv.Store {
	return &recordedStore{Store: store, recorder: r, client: client}
}

type recordedStore struct {
	kv.Store
	recorder *Recorder
	client   int
}

func (s *recordedStore) Read(ctx context.Context, paths ...string) (*kv.Snapshot, error) {
	operation := s.recorder.Begin(s.client, Read{paths})
	snapshot, err := s.Store.Read(ctx, paths...)
	if err != nil {
		operation.Drop()
		return nil, err
	}
	operation.End(snapshot)
	return snapshot, nil
}

func (s *recordedStore) Commit(ctx context.Context, transaction kv.Transaction) (int64, error) {
	operation := s.recorder.Begin(s.client, Commit{transaction})
	revision, err := s.Store.Commit(ctx, transaction)
	switch {
	case err == nil:
		operation.End(Done{revision})
	case errors.Is(err, kv.ErrConflict):
		operation.End(Refused{kv.ErrConflict})
	case errors.Is(err, kv.ErrSessionLost):
		operation.End(Refused{kv.ErrSessionLost})
	case errors.Is(err, kv.ErrTooLarge):
		operation.Drop()
	}
	return revision, err
}

func (s *recordedStore) Open(ctx context.Context, name string, duration time.Duration) (kv.Session, error) {
	session, err := s.Store.Open(ctx, name, duration)
	if err != nil {
		return nil, err
	}
	recorded := &recordedSession{Session: session, recorder: s.recorder, client: s.client}
	go func() {
		<-session.Lost()
		recorded.lost()
	}()
	return recorded, nil
}

type recordedSession struct {
	kv.Session
	recorder *Recorder
	client   int
	once     sync.Once
	end      *Operation
}

// lost records that the session may end from now on.
func (s *recordedSession) lost() {
	s.once.Do(func() {
		s.end = s.recorder.Begin(s.client, End{s.ID()})
		s.end.SetOutput(Ended{})
	})
}

func (s *recordedSession) Close(ctx context.Context) error {
	s.lost()
	err := s.Session.Close(ctx)
	if err == nil {
		s.end.End(Ended{})
	}
	return err
}
