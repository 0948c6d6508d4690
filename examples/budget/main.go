// Command budget is an operator that maintains a PodDisruptionBudget for every Deployment. It is
// the example of a sharded operator with controller-runtime: start any number of instances, and
// each reconciles its own share of the Deployments.
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

// options are the flags. The cluster is that of --kubeconfig, which controller-runtime adds,
// $KUBECONFIG or the pod.
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
	flag.StringVar(&o.health, "health-address", ":8081", "address of /healthz and /readyz; 0 disables it")
	flag.StringVar(&o.metrics, "metrics-address", ":8080", "address of /metrics; 0 disables it")
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
		return fmt.Errorf("loading the kubeconfig (set --kubeconfig or $KUBECONFIG): %w", err)
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
		// A rollout continues when this instance has joined the ring.
		mgr.AddReadyzCheck("shard", mgr.Shard().Ready),
		(&reconciler{mgr.GetClient()}).addTo(mgr),
	); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	return mgr.Start(ctx)
}
