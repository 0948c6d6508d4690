// Command agree is the smallest operator that agrees with others before it disturbs what they share: a member of each is to be
// restarted, and one of the operators restarts all, one after the other. They meet in a namespace of one cluster.
//
// Start it as often as you like, each time with another prefix:
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

// operator looks after one member.
type operator struct {
	member coordination.MemberID
	needs  bool // the member has to be restarted
}

// Needs says what the member needs now.
func (o *operator) Needs(context.Context, *coordination.View) (coordination.Needs, error) {
	needs := coordination.Needs{Members: []coordination.MemberID{o.member}}
	if o.needs {
		needs.Pending = []coordination.Need{{Action: restart, Member: o.member, Ready: true}}
	}
	return needs, nil
}

// Plan restarts one member after the other, each by its own operator.
func (o *operator) Plan(_ context.Context, proposal coordination.Proposal) (steps []coordination.Step, err error) {
	for _, id := range proposal.IDs() {
		steps = append(steps, coordination.Step{Do: "restart", Members: []coordination.MemberID{id}, Order: true})
	}
	return steps, nil
}

// Execute has to be idempotent, and should refuse a token that is older than one that it has seen.
func (o *operator) Execute(_ context.Context, task coordination.Task) error {
	fmt.Printf("restarting %s under the token %d\n", o.member, task.Token)
	o.needs = false
	return nil
}

// Healthy lets the plan go on at once: a real operator looks whether the system is well again.
func (o *operator) Healthy(context.Context, coordination.Step) error { return nil }

func main() {
	namespace := flag.String("namespace", "default", "where the operators meet; it has to be there")
	prefix := flag.String("prefix", "a", "what this operator's members belong to")
	flag.Parse() // and --kubeconfig, which controller-runtime adds
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	store, err := kubestore.New(kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie()), kubestore.Options{Namespace: *namespace})
	if err != nil {
		log.Fatal(err) //nolint:gocritic // nothing has begun
	}
	c, err := coordination.New(coordination.Options{
		Store: store, System: "agree", Name: *prefix + "-operator", Actions: []coordination.Action{restart},
		Session: 10 * time.Second, // for so long the others believe in it after it has died
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // the lock goes at once; what it needs stays for its next process
	settings := coordination.Settings{Mode: coordination.Global, Prefix: *prefix, Policy: coordination.Policy{Quiet: 2 * time.Second}}
	system := &operator{member: coordination.MemberID(*prefix + "-1"), needs: true}
	for changed := c.Changed(ctx); ctx.Err() == nil; {
		result, err := c.Reconcile(ctx, settings, system)
		if err != nil && ctx.Err() == nil {
			log.Println(err) // the next time it looks again
		}
		select { // when somebody has said something, and when it is time
		case <-changed:
		case <-time.After(result.Again):
		case <-ctx.Done():
		}
	}
}
