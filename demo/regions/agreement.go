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

// followAgreement tells what the operators of a system tell each other in the etcd at an endpoint, until ctx ends. While
// that etcd is being changed, it does not answer for a moment: what was known last is shown until it is too old.
func followAgreement(ctx context.Context, endpoint, system string, tell func(coordinationstatus.Summary)) {
	const timeout, interval, tooOld, keepAlive = 2 * time.Second, time.Second, 5 * time.Second, 10 * time.Second
	delays := backoff.DefaultConfig
	delays.BaseDelay, delays.MaxDelay = interval/10, interval
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, Logger: zap.NewNop(), DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAlive,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: delays, MinConnectTimeout: timeout})},
	})
	if err != nil {
		tell(coordinationstatus.Summary{Problem: err.Error()})
		return
	}
	defer client.Close()
	store := etcdstore.New(client, etcdstore.Options{Timeout: timeout})
	changed := store.Watch(ctx, coordination.DefaultRoot+"/"+system)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	known := time.Now()
	for ctx.Err() == nil {
		found, err := coordination.ReadView(ctx, store, "", system)
		switch now := time.Now(); {
		case err == nil:
			known = now
			agreement := coordinationstatus.Of(now, endpoint, found).Systems[0].Summary()
			tell(agreement)
		case now.Sub(known) > tooOld && ctx.Err() == nil:
			tell(coordinationstatus.Summary{Problem: err.Error()})
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-ticker.C:
		}
	}
}
