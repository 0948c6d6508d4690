package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/operator"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
)

const operatorUsage = `etcdcluster operator manages the members that one region has of an etcd cluster, together with the operators of
the other regions. Which cluster it works on is said by --kubeconfig, by $KUBECONFIG or by the pod that it runs in.

On your machine:  etcdcluster operator --namespace=dc1 --agent=http://127.0.0.1:7070

Flags:
`

type operatorOptions struct {
	operator.Options
	store, storeNamespace string
	log                   zap.Options
	// clock is the process's own. Tests have others.
	clock clock.Clock
}

func parseOperator(args []string, out io.Writer) (operatorOptions, error) {
	var o operatorOptions
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	ctrl.RegisterFlags(flags)
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the region; EtcdClusters of others are not looked at")
	flags.StringVar(&o.Name, "name", "", "name of this instance, which no other one has (default: the namespace)")
	flags.StringVar(&o.Agent, "agent", "http://127.0.0.1:7070", "where the agent of the region is")
	flags.StringVar(&o.store, "store", "system", "where the operators meet: system (in the etcd cluster that they manage) or kubernetes (in a namespace that all of them can reach)")
	flags.StringVar(&o.storeNamespace, "store-namespace", "", "namespace of the store, with --store=kubernetes")
	flags.DurationVar(&o.Session, "session-duration", coordination.DefaultSession, "how long the others believe in this instance when it says nothing")
	flags.StringVar(&o.Manager.HealthProbeBindAddress, "health-address", ":8081", "where to serve /healthz; 0 turns it off")
	flags.StringVar(&o.Manager.Metrics.BindAddress, "metrics-address", ":8080", "where to serve /metrics; 0 turns it off")
	if err := parse(flags, &o.log, args, operatorUsage, out); err != nil {
		return o, err
	}
	switch {
	case o.Namespace == "":
		return o, errors.New("--namespace is missing; see etcdcluster operator --help")
	case o.store != "system" && o.store != "kubernetes":
		return o, fmt.Errorf("--store=%s is neither system nor kubernetes", o.store)
	case (o.store == "kubernetes") != (o.storeNamespace != ""):
		return o, errors.New("--store=kubernetes and --store-namespace go together")
	}
	return o, nil
}

func runOperator(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseOperator(args, out)
	if err != nil {
		return err
	}
	return o.run(ctx)
}

func (o operatorOptions) run(ctx context.Context) error {
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.log)))
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster (name it with --kubeconfig or $KUBECONFIG): %w", err)
	}
	if o.store == "kubernetes" {
		if o.Store, err = inKubernetes(config, o.storeNamespace, o.clock); err != nil {
			return err
		}
	}
	if o.clock != nil {
		o.Clock = o.clock
	}
	return operator.Run(ctx, config, o.Options)
}

func inKubernetes(config *rest.Config, namespace string, clock clock.Clock) (coordination.Store, error) {
	// Renewals of the session must not wait behind other requests.
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 100, 200
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the store: %w", err)
	}
	return kubestore.New(clients, kubestore.Options{Namespace: namespace, Clock: clock})
}
