package kubestore_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// Example increments a counter that other processes increment at the same time.
func Example() {
	ctx := context.Background()
	config, err := rest.InClusterConfig()
	if err != nil {
		panic(err)
	}
	config.QPS = -1 // the store has its own client; the API server limits requests itself
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		panic(err)
	}
	store, err := kubestore.New(client, kubestore.Options{Namespace: "coordination"})
	if err != nil {
		panic(err)
	}
	snapshot, err := store.Read(ctx, "/example/count")
	if err != nil {
		panic(err)
	}
	count := snapshot.Entries["/example/count"]
	revision, err := store.Commit(ctx, kv.Transaction{
		If:   []kv.Condition{kv.IsAt("/example/count", count.Version)},
		Then: []kv.Operation{kv.Put("/example/count", count.Value+"I")},
	})
	fmt.Println(revision, err)
}
