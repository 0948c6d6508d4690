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

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/staleness"
)

// endExpiredIfDue ends the expired sessions, if an observation is due. Its errors do not affect reads and writes.
func (s *store) endExpiredIfDue(ctx context.Context) {
	if s.tracker.Due(s.clock.Now(), s.observeInterval()) {
		s.tracker.LogError(ctx, s.endExpiredSessions(ctx))
	}
}

// observeInterval returns the delay between two observations of the sessions.
func (s *store) observeInterval() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return staleness.Interval(s.durations...)
}

// endExpiredSessions revokes the leases of all expired sessions. Their owners have counted them as lost before.
func (s *store) endExpiredSessions(ctx context.Context) error {
	own := s.ownSessions()
	sentAt := s.clock.Now()
	found, err := s.listSessions(ctx)
	if err != nil {
		return err
	}
	versions := make(map[string]string, len(found))
	for _, each := range found {
		versions[string(each.Key)] = strconv.FormatInt(each.ModRevision, 10)
	}
	unchangedFor := s.tracker.Observe(sentAt, s.clock.Now(), versions)
	errs := []error{s.markMissingLost(ctx, own, versions)}
	var durations []time.Duration
	for _, each := range found {
		duration, err := durationOf(each)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		durations = append(durations, duration)
		if unchangedFor[string(each.Key)] >= duration {
			errs = append(errs, s.revoke(ctx, clientv3.LeaseID(each.Lease)))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durations = durations
	return errors.Join(errs...)
}

func durationOf(session *mvccpb.KeyValue) (time.Duration, error) {
	var record sessionRecord
	err := json.Unmarshal(session.Value, &record)
	if err != nil {
		return 0, fmt.Errorf("reading the session %s: %w", session.Key, err)
	}
	duration, err := time.ParseDuration(record.Duration)
	if err != nil {
		return 0, fmt.Errorf("reading the session %s: %w", session.Key, err)
	}
	return duration, nil
}

func (s *store) listSessions(ctx context.Context) ([]*mvccpb.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answer, err := s.client.Get(ctx, s.sessionsPath+"/", clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("listing the sessions: %w", err)
	}
	return answer.Kvs, nil
}

func (s *store) ownSessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sessions))
}

// markMissingLost marks the sessions of this process as lost whose key was deleted, for example manually, and revokes their leases.
func (s *store) markMissingLost(ctx context.Context, own []*session, versions map[string]string) error {
	var errs []error
	for _, session := range own {
		if _, alive := versions[session.key()]; !alive {
			session.MarkLost()
			s.removeSession(session)
			errs = append(errs, s.revoke(ctx, session.lease))
		}
	}
	return errors.Join(errs...)
}
