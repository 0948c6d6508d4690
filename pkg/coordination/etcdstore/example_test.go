package etcdstore_test

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// Example takes a lock that is released when its holder dies.
func Example() {
	ctx := context.Background()
	const duration = 10 * time.Second
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{"https://etcd-0:2379", "https://etcd-1:2379", "https://etcd-2:2379"},
		DialKeepAliveTime:    duration,
		DialKeepAliveTimeout: duration,
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	store := etcdstore.New(client, etcdstore.Options{})
	session, err := store.Open(ctx, "region-a", duration)
	if err != nil {
		panic(err)
	}
	revision, err := store.Commit(ctx, kv.Transaction{
		If:   []kv.Condition{kv.IsAbsent("/example/lock")},
		Then: []kv.Operation{kv.PutFor(session, "/example/lock", "region-a")},
	})
	fmt.Println(revision, err)
}
