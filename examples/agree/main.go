// Command agree is a minimal operator that agrees with others before it disturbs a shared system: a member of each operator has to
// be restarted, and one operator leads the restart of all members, one at a time. The operators share a store in a namespace.
//
// Start several operators, each with its own prefix:
//
//	agree --namespace=default --prefix=a & agree --namespace=default --prefix=b
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
)

const restart coordination.Action = "Restart"

// operator manages one member.
type operator struct {
	member coordination.MemberID
	needs  bool // the member has to be restarted
}

// Needs returns the action that the member needs.
func (o *operator) Needs(context.Context, *coordination.View) (coordination.Needs, error) {
	needs := coordination.Needs{Members: []coordination.MemberID{o.member}}
	if o.needs {
		needs.Pending = []coordination.Need{{Action: restart, Member: o.member, Ready: true}}
	}
	return needs, nil
}

// Plan returns one order per member, so that the operators restart the members one at a time.
func (o *operator) Plan(_ context.Context, proposal coordination.Proposal) (steps []coordination.Step, err error) {
	for _, id := range proposal.IDs() {
		steps = append(steps, coordination.Step{Do: "restart", Members: []coordination.MemberID{id}, Order: true})
	}
	return steps, nil
}

// Execute has to be idempotent, and should refuse a token older than the newest one that it has seen.
func (o *operator) Execute(_ context.Context, task coordination.Task) error {
	fmt.Printf("restarting %s under the token %d\n", o.member, task.Token)
	o.needs = false
	return nil
}

// Healthy lets the plan continue at once: a real operator checks whether the system is healthy again.
func (o *operator) Healthy(context.Context, coordination.Step) error { return nil }

func main() {
	namespace := flag.String("namespace", "default", "existing namespace of the shared store")
	prefix := flag.String("prefix", "a", "prefix of this operator's members")
	flag.Parse() // and --kubeconfig, which controller-runtime adds
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	store, err := kubestore.New(kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie()), kubestore.Options{Namespace: *namespace})
	if err != nil {
		log.Fatal(err) //nolint:gocritic // the deferred stop is not needed
	}
	c, err := coordination.New(coordination.Options{
		Store: store, System: "agree", Name: *prefix + "-operator", Actions: []coordination.Action{restart},
		SessionDuration: 10 * time.Second, // how long it counts as alive after it has died
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // releases the lock; the entries stay for the next process
	settings := coordination.Settings{Mode: coordination.Global, Prefix: *prefix, Policy: coordination.Policy{Quiet: 2 * time.Second}}
	system := &operator{member: coordination.MemberID(*prefix + "-1"), needs: true}
	for changed := c.Changed(ctx); ctx.Err() == nil; {
		result, err := c.Reconcile(ctx, settings, system)
		if err != nil && ctx.Err() == nil {
			log.Println(err) // the next call retries
		}
		select { // after a change of the store, or after result.RequeueAfter
		case <-changed:
		case <-time.After(result.RequeueAfter):
		case <-ctx.Done():
		}
	}
}
