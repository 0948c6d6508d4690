package coordination_test

import (
	"context"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
)

// An operator takes part in the coordination of a database that others manage too. This is what it does in every
// reconcile.
func ExampleCoordinator() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	c, err := coordination.New(coordination.Options{
		Store: etcdstore.New(client, etcdstore.Options{}), System: "orders-db", Name: "dc1-operator",
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Configure(ctx, coordination.Settings{
		Mode: coordination.Global, Prefix: "dc1", Policy: coordination.Policy{Quiet: 30 * time.Second},
	}); err != nil {
		log.Fatal(err)
	}
	view, err := c.View(ctx) // before it looks at its members
	if err != nil {
		log.Fatal(err)
	}
	wants := coordination.Wants{}
	wants.Want(coordination.PendingForRestart, "dc1-storage-1")
	wants.Want(coordination.ReadyForRestart, "dc1-storage-1")
	if err := c.Declare(ctx, view, wants); err != nil {
		log.Fatal(err)
	}
	verdict := c.Judge(view, coordination.Restart, "")
	if !verdict.Open {
		fmt.Println(verdict.Summary())
		return
	}
	grant, err := c.Begin(ctx, verdict, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("restarting all members under the token", grant.Token)
	if err := grant.Done(ctx, ""); err != nil {
		log.Fatal(err)
	}
}

// What people call an action waits for is in words.
func ExampleVerdict_Summary() {
	verdict := &coordination.Verdict{Action: coordination.Restart, Waits: []coordination.Waits{
		{For: "dc2-storage-1", Reason: "it is not ready"}, {Reason: "12s more without a change"},
	}}
	fmt.Println(verdict.Summary())
	// Output: Restart waits for dc2-storage-1: it is not ready; 12s more without a change
}
