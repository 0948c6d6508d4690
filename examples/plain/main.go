// Command plain does what the example budget does with client-go alone. It shows how to write a
// shard without controller-runtime, and what a shard in another language has to do. It joins the
// same ring, next to instances of budget. It can also run with plain leader election.
//
// It follows the guidelines for controllers of Kubernetes; comments name them by number.
// https://github.com/kubernetes/community/blob/HEAD/contributors/devel/sig-api-machinery/controllers.md
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// options are the flags.
type options struct {
	mode       shard.Mode
	lease      shard.Lease
	kubeconfig string
	health     string
	workers    int
}

func parse() options {
	o := options{mode: shard.ModeShard}
	flag.Var(&o.mode, "mode", "shard: reconcile the objects of this shard; lead: reconcile all objects while leading; alone: reconcile all objects, for development")
	flag.StringVar(&o.lease.Ring, "ring", "budget", "name of the ControllerRing to join, and of the Lease of the leader")
	flag.StringVar(&o.lease.Name, "shard-name", os.Getenv("POD_NAME"), "name of this instance")
	flag.StringVar(&o.lease.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of this instance's Lease")
	flag.DurationVar(&o.lease.Duration, "lease-duration", shard.DefaultLeaseDuration, "how long the Lease lasts without a renewal")
	flag.DurationVar(&o.lease.RenewDeadline, "renew-deadline", shard.DefaultRenewDeadline, "how long to try to renew the Lease before giving up")
	flag.DurationVar(&o.lease.RetryPeriod, "retry-period", shard.DefaultRetryPeriod, "how often to renew the Lease")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG, or the pod's)")
	flag.StringVar(&o.health, "health-address", ":8081", "address of /healthz and /readyz")
	flag.IntVar(&o.workers, "workers", 5, "number of workers")
	flag.Parse()
	return o
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx = logr.NewContext(ctx, logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))
	err := run(ctx, parse())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// run runs the controller until ctx ends. Any number of shards are active at the same time. With
// leader election one instance is, and the others are on standby (guideline 8). When the Lease is
// lost, run returns and the process exits, because other instances are about to take its objects
// over.
func run(ctx context.Context, o options) error {
	client, err := connect(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("loading the kubeconfig (set --kubeconfig or $KUBECONFIG): %w", err)
	}
	if err := o.lease.Validate(); err != nil {
		return err
	}
	health, err := serveHealth(o.health)
	if err != nil {
		return err
	}
	defer health.close()
	controller, err := newController(client, o.selection())
	if err != nil {
		return err
	}
	// Fill the caches first: a shard that cannot read its objects must not join, and a standby
	// instance needs warm caches.
	if err := controller.fillCaches(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return o.runInMode(ctx, client, health, controller)
}

// runInMode runs the controller while this instance is a shard or leads.
func (o *options) runInMode(ctx context.Context, client kubernetes.Interface, health *health, controller *controller) error {
	work := func(ctx context.Context) {
		logr.FromContextOrDiscard(ctx).Info("Started reconciling", "mode", o.mode, "controllerRing", o.lease.Ring, "instance", o.lease.Name)
		health.ready.Store(true)
		controller.run(ctx, o.workers) // the Lease is released after this has returned
	}
	defer health.ready.Store(false)
	switch o.mode {
	case shard.ModeShard:
		o.lease.Client = client.CoordinationV1()
		return o.lease.Run(ctx, work)
	case shard.ModeLead:
		health.ready.Store(true) // on standby
		return (&shard.Leader{
			Client: client.CoordinationV1(), Namespace: o.lease.Namespace, Name: o.lease.Ring + "-leader",
			Ring: o.lease.Ring, Instance: o.lease.Name,
			Duration: o.lease.Duration, RenewDeadline: o.lease.RenewDeadline, RetryPeriod: o.lease.RetryPeriod,
		}).Run(ctx, work)
	case shard.ModeAlone:
		work(ctx)
		return nil
	}
	return fmt.Errorf("mode %q is not supported (available: shard, lead, alone)", o.mode)
}

// selection returns the objects that this instance watches.
func (o *options) selection() selection {
	if o.mode != shard.ModeShard {
		return selection{} // all
	}
	return selection{
		labelShard: shardingv1alpha1.LabelShard(o.lease.Ring), labelDrain: shardingv1alpha1.LabelDrain(o.lease.Ring), shard: o.lease.Name,
		ring: o.lease.Ring, namespace: o.lease.Namespace,
	}
}

func connect(kubeconfig string) (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	// No client-side rate limit, which would delay the renewal of the Lease. The API server limits
	// requests itself.
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}
