// Command plain does what the example budget does, with client-go alone: it is the example of a shard
// that is written without controller-runtime, and shows those who write one in another language what
// a shard has to do. It joins the same ring, and can work beside instances of budget. It can also lead, which
// is how most controllers run more than one instance: one works on all objects, the others wait for it.
//
// It is written as Kubernetes' guidelines for controllers ask; comments name them by number.
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
	flag.Var(&o.mode, "mode", "shard: work on this shard's objects; lead: work on all while leading; alone: work on all, for development")
	flag.StringVar(&o.lease.Ring, "ring", "budget", "name of the ControllerRing to join, and of the Lease of the leader")
	flag.StringVar(&o.lease.Name, "shard-name", os.Getenv("POD_NAME"), "name of this instance")
	flag.StringVar(&o.lease.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of this instance's Lease")
	flag.DurationVar(&o.lease.Duration, "lease-duration", shard.DefaultLeaseDuration, "how long the Lease lasts without a renewal")
	flag.DurationVar(&o.lease.RenewDeadline, "renew-deadline", shard.DefaultRenewDeadline, "how long to try to renew the Lease before giving up")
	flag.DurationVar(&o.lease.RetryPeriod, "retry-period", shard.DefaultRetryPeriod, "how often to renew the Lease")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG, or the pod's)")
	flag.StringVar(&o.health, "health-address", ":8081", "where to serve /healthz and /readyz")
	flag.IntVar(&o.workers, "workers", 5, "how many Deployments to work on at the same time")
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

// run works until ctx ends. Any number of shards are active at the same time; of those that lead, one is, and
// the others are ready to take over (guideline 8). When its Lease is lost, run returns and the process
// ends: others are about to work on its objects.
func run(ctx context.Context, o options) error {
	client, err := connect(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
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
	// Before it joins or leads: a shard that cannot read its objects must not be given any, and who waits to
	// lead does so with warm caches.
	if err := controller.fillCaches(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return o.share(ctx, client, health, controller)
}

// share works when it is this instance's turn.
func (o *options) share(ctx context.Context, client kubernetes.Interface, health *health, controller *controller) error {
	work := func(ctx context.Context) {
		logr.FromContextOrDiscard(ctx).Info("Works", "mode", o.mode, "controllerRing", o.lease.Ring, "instance", o.lease.Name)
		health.ready.Store(true)
		controller.run(ctx, o.workers) // the Lease is released when this has returned, and not before
	}
	defer health.ready.Store(false)
	switch o.mode {
	case shard.ModeShard:
		o.lease.Client = client.CoordinationV1()
		return o.lease.Run(ctx, work)
	case shard.ModeLead:
		health.ready.Store(true) // to lead
		return (&shard.Leader{
			Client: client.CoordinationV1(), Namespace: o.lease.Namespace, Name: o.lease.Ring + "-leader",
			Ring: o.lease.Ring, Instance: o.lease.Name,
			Duration: o.lease.Duration, RenewDeadline: o.lease.RenewDeadline, RetryPeriod: o.lease.RetryPeriod,
		}).Run(ctx, work)
	case shard.ModeAlone:
		work(ctx)
		return nil
	}
	return fmt.Errorf("this example has no mode %q: choose shard, lead or alone", o.mode)
}

// selection is which objects this instance sees.
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
	// No limit on this side: the renewal of the Lease would wait behind everything else. The API server
	// protects itself.
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}
