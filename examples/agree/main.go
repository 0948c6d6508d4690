// Command agree is the smallest operator that agrees with others before it disturbs what they share: a member of each is to be
// restarted, and one of the operators restarts all, one after the other. They meet in a namespace of one cluster.
//
// Start it as often as you like, each time with another prefix:
//
//	agree --namespace=default --prefix=a & agree --namespace=default --prefix=b
package main

import (
	"context"
	"errors"
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

// operator looks after one member.
type operator struct {
	*coordination.Coordinator
	prefix string
	member coordination.MemberID
	needs  bool // the member has to be restarted
	grant  *coordination.Grant
}

func main() {
	namespace := flag.String("namespace", "default", "where the operators meet; it has to be there")
	prefix := flag.String("prefix", "a", "what this operator's members belong to")
	flag.Parse() // and --kubeconfig, which controller-runtime adds
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *namespace, *prefix)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, namespace, prefix string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	store, err := kubestore.New(clients, kubestore.Options{Namespace: namespace})
	if err != nil {
		return err
	}
	c, err := coordination.New(coordination.Options{
		Store: store, System: "agree", Name: prefix + "-operator", // the same after a restart
		Session:  10 * time.Second, // so long the others believe in it after it has died, and a new process of the name waits
		Policies: map[coordination.Action]coordination.Policy{coordination.Restart: {Quiet: 2 * time.Second}},
	})
	if err != nil {
		return err
	}
	// What it has said stays for its next process; that it lives, and its lock, go at once.
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	o := &operator{Coordinator: c, prefix: prefix, member: coordination.MemberID(prefix + "-1"), needs: true}
	changed := c.Changed(ctx)
	for ctx.Err() == nil {
		if err := o.reconcile(ctx); err != nil && ctx.Err() == nil {
			log.Println(err) // the next time it looks again
		}
		select { // when somebody has said something, and now and then
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return nil
}

// reconcile says what is needed, does what is ordered, and acts for all when that is due. It never waits.
func (o *operator) reconcile(ctx context.Context) error {
	if err := o.Configure(ctx, coordination.Settings{Mode: coordination.Global, Prefix: o.prefix}); err != nil {
		return err
	}
	view, err := o.View(ctx) // before it looks at its members
	if err != nil {
		return err
	}
	wants := coordination.Wants{}
	if o.needs {
		wants.Want(coordination.PendingForRestart, o.member)
		wants.Want(coordination.ReadyForRestart, o.member)
	}
	if err := o.Declare(ctx, view, wants); err != nil {
		return err
	}
	if order := o.Order(view, o.member); order != nil { // somebody acts, and it is this one's turn
		o.restart(order.Token)
		return o.Answer(ctx, order, "")
	}
	return o.act(ctx, view)
}

// restart has to be idempotent, and should refuse a token that is older than one that it has seen.
func (o *operator) restart(token int64) {
	fmt.Printf("restarting %s under the token %d\n", o.member, token)
	o.needs = false
}

// act begins what is due, goes on with what another one has left, and takes the next step.
func (o *operator) act(ctx context.Context, view *coordination.View) (err error) {
	var held *coordination.HeldError
	switch verdict := o.Judge(view, coordination.Restart, ""); {
	case o.grant != nil && o.grant.Held():
		return o.step(ctx, view)
	case view.Intent != nil:
		o.grant, err = o.Resume(ctx)
	case verdict.Open:
		var steps []coordination.Step
		for id := range verdict.Members {
			steps = append(steps, coordination.Step{Do: "restart", Member: id, Order: true}) // its own operator has to do it
		}
		o.grant, err = o.Begin(ctx, verdict, steps)
	}
	if errors.As(err, &held) || errors.Is(err, coordination.ErrConflict) || errors.Is(err, coordination.ErrNothingLeft) {
		return nil // another one was faster
	}
	return err
}

// step goes on when the present step was carried out, or is not wanted any more.
func (o *operator) step(ctx context.Context, view *coordination.View) error {
	step := o.grant.Step()
	switch {
	case step == nil:
		return o.grant.Done(ctx, "")
	case o.grant.Answered(view) != nil || !o.grant.Wanted(view, step.Member):
		return o.grant.Advance(ctx)
	}
	return nil
}
