package regions

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
)

// followCoordination reads the coordination records of a system from the etcd at an endpoint, and
// passes a summary to update, until ctx ends. While the etcd does not answer for a moment, the last
// summary stays valid.
func followCoordination(ctx context.Context, endpoint, system string, update func(coordinationstatus.Summary)) {
	const timeout, interval, staleAfter, keepAlive = 2 * time.Second, time.Second, 5 * time.Second, 10 * time.Second
	delays := backoff.DefaultConfig
	delays.BaseDelay, delays.MaxDelay = interval/10, interval
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, Logger: zap.NewNop(), DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAlive,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: delays, MinConnectTimeout: timeout})},
	})
	if err != nil {
		update(coordinationstatus.Summary{Problem: err.Error()})
		return
	}
	defer client.Close()
	store := etcdstore.New(client, etcdstore.Options{Timeout: timeout})
	changed := store.Watch(ctx, coordination.DefaultRoot+"/"+system)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	lastRead := time.Now()
	for ctx.Err() == nil {
		found, err := coordination.ReadView(ctx, store, "", system)
		switch now := time.Now(); {
		case err == nil:
			lastRead = now
			summary := coordinationstatus.Of(now, endpoint, found).Systems[0].Summary()
			update(summary)
		case now.Sub(lastRead) > staleAfter && ctx.Err() == nil:
			update(coordinationstatus.Summary{Problem: err.Error()})
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-ticker.C:
		}
	}
}
