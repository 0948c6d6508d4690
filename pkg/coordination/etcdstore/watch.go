package etcdstore

import (
	"context"
	"errors"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keys"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/watching"
)

// Watch implements coordination.Store.
func (s *store) Watch(ctx context.Context, path string) <-chan struct{} {
	return watching.Keep(ctx, s.clock, func(ctx context.Context, signal func()) error {
		return s.follow(ctx, path, signal)
	})
}

// follow watches until there is a reason to begin again: etcd has no leader, has compacted what was to come, or
// the client is closed. What only breaks a connection is mended by the client, which then goes on where it was.
// Meanwhile it looks at the sessions from time to time.
func (s *store) follow(ctx context.Context, path string, signal func()) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	responses := s.client.Watch(ctx, path,
		clientv3.WithRange(clientv3.GetPrefixRangeEnd(path+"/")), clientv3.WithCreatedNotify())
	look := s.clock.NewTimer(s.pause())
	defer look.Stop()
	for {
		select {
		case response, open := <-responses:
			if err := response.Err(); err != nil {
				return err
			}
			if !open {
				return errors.New("etcd's client has ended the watch")
			}
			if response.Created || touches(response.Events, path) {
				signal()
			}
		case <-look.C():
			s.observe(ctx)
			look.Reset(s.pause())
		}
	}
}

// touches tells whether one of the events is at or below the path. What is watched has siblings as well, such as
// a/dc1-old of a/dc1.
func touches(events []*clientv3.Event, path string) bool {
	return slices.ContainsFunc(events, func(event *clientv3.Event) bool { return keys.Within(path, string(event.Kv.Key)) })
}
