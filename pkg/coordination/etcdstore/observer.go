package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/sightings"
)

// observe ends the sessions that are over, if it is time to look for those. What is read and written is right without
// it.
func (s *store) observe(ctx context.Context) {
	if s.seen.Due(s.clock.Now(), s.pause()) {
		s.seen.Tell(ctx, s.endSessions(ctx))
	}
}

// pause is how long to wait between two looks at the sessions.
func (s *store) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sightings.Pause(s.durations...)
}

// endSessions revokes the leases of all sessions that are over. What is over stays so: its owner has counted it as
// lost before.
func (s *store) endSessions(ctx context.Context) error {
	own := s.ownSessions()
	asked := s.clock.Now()
	found, err := s.listSessions(ctx)
	if err != nil {
		return err
	}
	versions := make(map[string]string, len(found))
	for _, each := range found {
		versions[string(each.Key)] = strconv.FormatInt(each.ModRevision, 10)
	}
	unchanged := s.seen.Note(asked, s.clock.Now(), versions)
	errs := []error{s.loseMissing(ctx, own, versions)}
	var durations []time.Duration
	for _, each := range found {
		duration, err := durationOf(each)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		durations = append(durations, duration)
		if unchanged[string(each.Key)] >= duration {
			errs = append(errs, s.revoke(ctx, clientv3.LeaseID(each.Lease)))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durations = durations
	return errors.Join(errs...)
}

func durationOf(session *mvccpb.KeyValue) (time.Duration, error) {
	var is tenant
	err := json.Unmarshal(session.Value, &is)
	if err != nil {
		return 0, fmt.Errorf("reading the session %s: %w", session.Key, err)
	}
	duration, err := time.ParseDuration(is.Duration)
	if err != nil {
		return 0, fmt.Errorf("reading the session %s: %w", session.Key, err)
	}
	return duration, nil
}

func (s *store) listSessions(ctx context.Context) ([]*mvccpb.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answer, err := s.client.Get(ctx, s.path+"/", clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("looking whose sessions are alive: %w", err)
	}
	return answer.Kvs, nil
}

func (s *store) ownSessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sessions))
}

// loseMissing loses the sessions of this process that are not there any more, which is news if somebody has ended them
// by hand. If that was only half done, it does the rest.
func (s *store) loseMissing(ctx context.Context, own []*session, versions map[string]string) error {
	var errs []error
	for _, session := range own {
		if _, alive := versions[session.key()]; !alive {
			session.Lose()
			s.forget(session)
			errs = append(errs, s.revoke(ctx, session.lease))
		}
	}
	return errors.Join(errs...)
}
