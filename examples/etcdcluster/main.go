// Command etcdcluster is the multi-region sample: the operator of one region of an etcd cluster, which agrees with the operators
// of the other regions before it disturbs the system.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/operator"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
)

const usage = `etcdcluster manages the members of an etcd cluster in one region, in agreement with the other regions.
It finds its Kubernetes cluster with --kubeconfig, $KUBECONFIG or the pod that it runs in. Before the first start:
  kubectl apply -k examples/etcdcluster/config/crds

On your machine:  etcdcluster --namespace=dc1 --agent=http://127.0.0.1:7070

Flags:
`

type operatorOptions struct {
	operator.Options
	store, storeNamespace, storeEndpoints string
	log                                   zap.Options
}

func main() {
	o, err := parse(os.Args[1:], os.Stdout)
	if err == nil {
		err = o.run(ctrl.SetupSignalHandler())
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// parse reads the flags. It writes the help to out.
func parse(args []string, out io.Writer) (o operatorOptions, err error) {
	flags := flag.NewFlagSet("etcdcluster", flag.ContinueOnError)
	ctrl.RegisterFlags(flags)
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the region; EtcdClusters of other namespaces are ignored")
	flags.StringVar(&o.Name, "name", "", "unique name of this operator (default: the namespace)")
	flags.StringVar(&o.Agent, "agent", "http://127.0.0.1:7070", "URL of the region's agent")
	flags.StringVar(&o.store, "store", "system", "store that the operators share: system (an etcd) or kubernetes (a namespace)")
	flags.StringVar(&o.storeEndpoints, "store-endpoints", "", "URLs of the etcd that is the store, if it is not the managed one")
	flags.StringVar(&o.storeNamespace, "store-namespace", "", "namespace of the store, with --store=kubernetes")
	flags.DurationVar(&o.Session, "session-duration", coordination.DefaultSessionDuration, "how long this operator counts as alive after it has died")
	flags.StringVar(&o.Manager.HealthProbeBindAddress, "health-address", ":8081", "where to serve /healthz; 0 turns it off")
	flags.StringVar(&o.Manager.Metrics.BindAddress, "metrics-address", ":8080", "where to serve /metrics; 0 turns it off")
	o.log.DestWriter = os.Stderr
	o.log.BindFlags(flags)
	flags.Usage = func() {}
	flags.SetOutput(io.Discard) // the error is returned too
	// With nanoseconds, the lines of several processes can be sorted.
	switch err := errors.Join(flags.Set("zap-time-encoding", "rfc3339nano"), flags.Parse(args)); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(out)
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w; see etcdcluster --help", err)
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; see etcdcluster --help", flags.Arg(0))
	case o.Namespace == "":
		return o, errors.New("--namespace is missing; see etcdcluster --help")
	case o.store != "system" && o.store != "kubernetes":
		return o, fmt.Errorf("--store=%s is neither system nor kubernetes", o.store)
	case (o.store == "kubernetes") != (o.storeNamespace != ""):
		return o, errors.New("--store=kubernetes and --store-namespace go together")
	}
	return o, nil
}

func (o operatorOptions) run(ctx context.Context) error {
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.log)))
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster (name it with --kubeconfig or $KUBECONFIG): %w", err)
	}
	switch {
	case o.store == "kubernetes":
		config := rest.CopyConfig(config)
		config.QPS, config.Burst = 100, 200 // renewals of the session must not wait behind other requests
		clients, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("connecting to the store: %w", err)
		}
		if o.Store, err = kubestore.New(clients, kubestore.Options{Namespace: o.storeNamespace, Clock: o.Clock}); err != nil {
			return err
		}
	case o.storeEndpoints != "":
		store, err := system.Dial(strings.Split(o.storeEndpoints, ","))
		if err != nil {
			return err
		}
		o.Store = etcdstore.New(store.Client, etcdstore.Options{Timeout: operator.StoreTimeout})
	}
	return operator.Run(ctx, config, o.Options)
}
