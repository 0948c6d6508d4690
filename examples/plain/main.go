// Command plain does what the example budget does, with client-go alone: it is the example of a shard
// that is written without controller-runtime, and shows those who write one in another language what
// a shard has to do. It joins the same ring, and can work beside instances of budget.
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

	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// options are the flags.
type options struct {
	lease      shard.Lease
	kubeconfig string
	health     string
	workers    int
}

func parse() options {
	o := options{}
	flag.StringVar(&o.lease.Ring, "ring", "budget", "name of the ControllerRing to join")
	flag.StringVar(&o.lease.Name, "shard-name", os.Getenv("POD_NAME"), "name of this shard")
	flag.StringVar(&o.lease.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of this shard's Lease")
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

// run is a shard until ctx ends. Any number of them are active at the same time, and the Lease tells the
// sharder which are alive (guideline 8). When it is lost, run returns and the process ends: its objects
// are about to be given to others.
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
	controller, err := newController(client, o.lease.Ring, o.lease.Name)
	if err != nil {
		return err
	}
	// Before it joins: a shard that cannot read its objects must not be given any.
	if err := controller.fillCaches(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	o.lease.Client = client.CoordinationV1()
	return o.lease.Run(ctx, func(held context.Context) {
		logr.FromContextOrDiscard(ctx).Info("Joined the ring", "controllerRing", o.lease.Ring, "shard", o.lease.Name)
		health.ready.Store(true)
		controller.run(held, o.workers) // the Lease is released when this has returned, and not before
		health.ready.Store(false)
	})
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
