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

// database is what an operator in dc1 knows of a database that others manage too.
type database struct{ outdated, ready []coordination.MemberID }

const rollingRestart coordination.Action = "RollingRestart"

func (d *database) Needs(context.Context, *coordination.View) (coordination.Needs, error) {
	needs := coordination.Needs{Members: []coordination.MemberID{"dc1-1", "dc1-2"}}
	for _, id := range d.outdated {
		needs.Pending = append(needs.Pending, coordination.Need{Action: rollingRestart, Member: id, Ready: true})
	}
	return needs, nil
}

func (d *database) Plan(_ context.Context, proposal coordination.Proposal) ([]coordination.Step, error) {
	var steps []coordination.Step
	for _, id := range proposal.IDs() { // also those of the other participants
		steps = append(steps, coordination.Step{Do: "restart", Members: []coordination.MemberID{id}, Order: true})
	}
	return steps, nil
}

func (d *database) Execute(_ context.Context, task coordination.Task) error {
	fmt.Println(task.Do, task.Members, "unless the database has seen a newer token than", task.Token)
	return nil
}

func (d *database) Healthy(_ context.Context, step coordination.Step) error {
	if len(d.ready) == 0 {
		return coordination.NotYet("%s is not up yet", step.Member())
	}
	return nil
}

// An operator that takes part calls Reconcile whenever something has changed, and after Result.Again.
func ExampleCoordinator_Reconcile() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	c, err := coordination.New(coordination.Options{
		Store: etcdstore.New(client, etcdstore.Options{}), System: "orders-db", Name: "dc1-operator",
		Actions: []coordination.Action{rollingRestart},
	})
	if err != nil {
		log.Fatal(err)
	}
	settings := coordination.Settings{
		Mode: coordination.Global, Prefix: "dc1", Policy: coordination.Policy{Quiet: 30 * time.Second},
	}
	changed := c.Changed(ctx)
	for {
		result, err := c.Reconcile(ctx, settings, &database{outdated: []coordination.MemberID{"dc1-1"}})
		if err != nil {
			log.Print(err)
		}
		for _, blocker := range result.Waits {
			fmt.Println(blocker)
		}
		select {
		case <-changed:
		case <-time.After(result.Again):
		}
	}
}

// A reason is shown to people: ringmaster coordination status, and Result.Waits.
func ExampleNotYet() {
	fmt.Println(coordination.NotYet("%s catches up: %d of %d entries", "dc1-2", 10, 300))
	// Output: dc1-2 catches up: 10 of 300 entries
}

// Whoever looks at a system without taking part in it uses Look.
func ExampleLook() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	view, err := coordination.Look(context.Background(), etcdstore.New(client, etcdstore.Options{}), coordination.DefaultRoot, "orders-db")
	if err != nil {
		log.Fatal(err)
	}
	for _, action := range view.Actions() {
		fmt.Println(action, "waits for", view.Waits(action))
	}
}
