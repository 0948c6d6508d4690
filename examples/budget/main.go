// Command budget is an operator that keeps a PodDisruptionBudget for every Deployment. It is the
// example of a sharded operator that is written with controller-runtime: start as many of it as you
// like, and each works on its own share of the Deployments.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// options are the flags. Which cluster it works on is said by --kubeconfig, which controller-runtime
// adds, by $KUBECONFIG or by the pod that it runs in.
type options struct {
	shard           shard.Options
	health, metrics string
}

func parse() options {
	o := options{shard: shard.Options{Mode: shard.ModeShard}}
	flag.Var(&o.shard.Mode, "mode", "how the instances share the work: shard, in-process, sharder, lead or alone")
	flag.StringVar(&o.shard.Ring, "ring", "budget", "name of the ControllerRing to join")
	flag.StringVar(&o.shard.Name, "shard-name", "", "name of this shard (default: $POD_NAME, or the host's name)")
	flag.StringVar(&o.shard.Namespace, "namespace", "", "namespace of this shard's Lease (default: $POD_NAMESPACE, or the pod's)")
	flag.DurationVar(&o.shard.LeaseDuration, "lease-duration", shard.DefaultLeaseDuration, "how long the Lease lasts without a renewal")
	flag.DurationVar(&o.shard.RenewDeadline, "renew-deadline", shard.DefaultRenewDeadline, "how long to try to renew the Lease before giving up")
	flag.DurationVar(&o.shard.RetryPeriod, "retry-period", shard.DefaultRetryPeriod, "how often to renew the Lease")
	flag.StringVar(&o.health, "health-address", ":8081", "where to serve /healthz and /readyz; 0 turns it off")
	flag.StringVar(&o.metrics, "metrics-address", ":8080", "where to serve /metrics; 0 turns it off")
	flag.Parse()
	return o
}

func main() {
	if err := run(ctrl.SetupSignalHandler(), parse()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	ctrl.SetLogger(zap.New())
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	mgr, err := shard.NewManager(config, manager.Options{
		HealthProbeBindAddress: o.health,
		Metrics:                metricsserver.Options{BindAddress: o.metrics},
	}, o.shard)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	if err := errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		// A rollout goes on to the next pod when this one has joined the ring.
		mgr.AddReadyzCheck("shard", mgr.Shard().Ready),
		(&reconciler{mgr.GetClient()}).addTo(mgr),
	); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	return mgr.Start(ctx)
}
