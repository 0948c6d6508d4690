package bench

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// runShard runs an operator whose reconciler does nothing, so that only sharding is measured.
func runShard(ctx context.Context) error {
	ctrl.SetLogger(zap.New())
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	options := shard.Options{Ring: ringName, Name: os.Getenv("SHARD")}
	if os.Getenv("HANDOVER") == "off" {
		options.HandoverTimeout = -time.Second
	}
	mgr, err := shard.NewManager(config, manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{os.Getenv("POD_NAMESPACE"): {}}},
	}, options)
	if err != nil {
		return err
	}
	err = shard.ControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}, builder.OnlyMetadata, shard.Sharded{}).
		Owns(&corev1.Secret{}, builder.OnlyMetadata, shard.Sharded{}).
		Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}))
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
