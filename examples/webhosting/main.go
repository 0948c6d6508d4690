// Command webhosting is the sample operator: it serves a page for every Website, in the colors of
// its Theme. It follows the guidelines for controllers, and runs in every mode of pkg/shard,
// selected with one flag.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/webhosting/website"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

func main() {
	o, err := parse(os.Args[1:], os.Stdout)
	if err == nil {
		err = run(ctrl.SetupSignalHandler(), o)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.log)))
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the kubeconfig (set --kubeconfig or $KUBECONFIG): %w", err)
	}
	mgr, err := newManager(ctx, config, o)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager returns the manager with the controller.
func newManager(ctx context.Context, config *rest.Config, o options) (*shard.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), webhostingv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	o.manager.Scheme, o.manager.Cache.ByObject = scheme, website.Cached()
	mgr, err := shard.NewManager(config, o.manager, o.shard)
	if err != nil {
		return nil, fmt.Errorf("setting up: %w", err)
	}
	if err := requireCRDs(mgr.GetRESTMapper()); err != nil {
		return nil, err
	}
	if err := errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		// A rollout continues when this instance has joined the ring.
		mgr.AddReadyzCheck("shard", mgr.Shard().Ready),
		website.Add(ctx, mgr, o.website),
	); err != nil {
		return nil, fmt.Errorf("setting up: %w", err)
	}
	return mgr, nil
}

// requireCRDs returns an error if the CustomResourceDefinitions are missing. Otherwise the caches
// would time out after minutes.
func requireCRDs(mapper meta.RESTMapper) error {
	for _, kind := range []string{"Theme", "Website"} {
		groupKind := schema.GroupKind{Group: webhostingv1alpha1.SchemeGroupVersion.Group, Kind: kind}
		_, err := mapper.RESTMapping(groupKind, webhostingv1alpha1.SchemeGroupVersion.Version)
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("kind %s is not installed in the cluster: install it with `kubectl apply -k examples/webhosting/config/crds`", kind)
		}
		if err != nil {
			return fmt.Errorf("looking up the kind %s: %w", kind, err)
		}
	}
	return nil
}
