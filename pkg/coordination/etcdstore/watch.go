package etcdstore

import (
	"context"
	"errors"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keys"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/retrywatch"
)

// Watch implements kv.Store.
func (s *store) Watch(ctx context.Context, path string) <-chan struct{} {
	return retrywatch.Run(ctx, s.clock, func(ctx context.Context, signal func()) error {
		return s.watchOnce(ctx, path, signal)
	})
}

// watchOnce watches until the watch has to be opened again: etcd has no leader, has compacted the next revision, or the client is
// closed. After a broken connection the client reconnects and continues by itself. It also ends expired sessions.
func (s *store) watchOnce(ctx context.Context, path string, signal func()) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	responses := s.client.Watch(ctx, path,
		clientv3.WithRange(clientv3.GetPrefixRangeEnd(path+"/")), clientv3.WithCreatedNotify())
	ticker := s.clock.NewTimer(s.observeInterval())
	defer ticker.Stop()
	for {
		select {
		case response, open := <-responses:
			if err := response.Err(); err != nil {
				return err
			}
			if !open {
				return errors.New("the etcd client has closed the watch")
			}
			if response.Created || anyWithin(response.Events, path) {
				signal()
			}
		case <-ticker.C():
			s.endExpiredIfDue(ctx)
			ticker.Reset(s.observeInterval())
		}
	}
}

// anyWithin reports whether an event is at or below the path. The watched range also contains siblings, such as a/dc1-old for a/dc1.
func anyWithin(events []*clientv3.Event, path string) bool {
	return slices.ContainsFunc(events, func(event *clientv3.Event) bool { return keys.Within(path, string(event.Kv.Key)) })
}
