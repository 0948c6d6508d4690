package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/webhosting/website"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// options are the flags. The cluster is that of --kubeconfig, which controller-runtime adds,
// $KUBECONFIG or the pod.
type options struct {
	shard   shard.Options
	manager manager.Options
	website website.Options
	log     zap.Options
}

const usage = `Serve a page for every Website. Start any number of instances; --mode selects how they share the work:

  shard       each reconciles its own share, assigned by the external sharder (default)
  in-process  each reconciles its own share, assigned by the leader among the instances
  sharder     assigns shares as in-process, but reconciles no Websites itself
  lead        one reconciles all Websites, the others are on standby
  alone       reconciles all Websites without leader election; for development, with one instance

Before the first start:  kubectl apply -k examples/webhosting/config/crds
On your machine:         webhosting --mode=alone --namespace=default

Flags:
`

// parse parses the flags. It writes the help to out.
func parse(args []string, out io.Writer) (options, error) {
	o := options{
		shard:   shard.Options{Mode: shard.ModeShard, NamespaceSelector: projects()},
		website: website.Options{Clock: clock.RealClock{}},
	}
	flags := flag.NewFlagSet("webhosting", flag.ContinueOnError)
	ctrl.RegisterFlags(flags)
	o.bind(flags)
	if err := o.bindLog(flags); err != nil {
		return o, err
	}
	flags.Usage = func() {}     // the whole usage would hide the error
	flags.SetOutput(io.Discard) // the error is returned too
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(out)
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w; see webhosting --help", err)
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; see webhosting --help", flags.Arg(0))
	case o.website.WorkTime < 0:
		return o, fmt.Errorf("--work-time=%s is negative: it must be 0 or more", o.website.WorkTime)
	case o.website.Concurrency < 1:
		return o, fmt.Errorf("--concurrency=%d is invalid: it must be at least 1", o.website.Concurrency)
	}
	return o, disableSampling(flags)
}

func (o *options) bind(flags *flag.FlagSet) {
	flags.Var(&o.shard.Mode, "mode", "how the instances share the work: shard, in-process, sharder, lead or alone")
	flags.StringVar(&o.shard.Ring, "ring", "webhosting-operator", "name of the ring, of its labels and Leases")
	flags.StringVar(&o.shard.Name, "shard-name", "", "name of this instance (default: $POD_NAME, or the host's name)")
	flags.StringVar(&o.shard.Namespace, "namespace", "", "namespace of the Leases (default: $POD_NAMESPACE, or the pod's)")
	flags.DurationVar(&o.shard.LeaseDuration, "lease-duration", shard.DefaultLeaseDuration, "how long a Lease lasts without a renewal")
	flags.DurationVar(&o.shard.RenewDeadline, "renew-deadline", shard.DefaultRenewDeadline, "how long to try to renew a Lease before giving up")
	flags.DurationVar(&o.shard.RetryPeriod, "retry-period", shard.DefaultRetryPeriod, "how often to renew a Lease")
	flags.IntVar(&o.website.Concurrency, "concurrency", 15, "maximum number of concurrent reconciles")
	flags.DurationVar(&o.website.WorkTime, "work-time", 0, "delay in each reconcile, which simulates the call of a remote API; for experiments")
	flags.StringVar(&o.website.Image, "nginx-image", "nginx:stable", "image that serves the pages; nginx must be on its PATH")
	flags.StringVar(&o.manager.HealthProbeBindAddress, "health-address", ":8081", "address of /healthz and /readyz; 0 disables it")
	flags.StringVar(&o.manager.Metrics.BindAddress, "metrics-address", ":8080", "address of /metrics; 0 disables it")
	flags.StringVar(&o.manager.PprofBindAddress, "pprof-address", "", "address of /debug/pprof, without authentication (default: disabled)")
}

// projects selects the namespaces whose Websites the in-process sharder assigns. For the external
// sharder, the ControllerRing has the same selector.
func projects() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{webhostingv1alpha1.LabelProject: "true"}}
}

// bindLog adds the flags of zap, with timestamps in nanoseconds, so that the logs of several
// instances can be merged.
func (o *options) bindLog(flags *flag.FlagSet) error {
	const timeEncoding = "zap-time-encoding"
	o.log.DestWriter = os.Stderr
	o.log.BindFlags(flags)
	encoding := flags.Lookup(timeEncoding)
	encoding.DefValue, encoding.Usage = "rfc3339nano", "format of timestamps: epoch, millis, nanos, iso8601, rfc3339 or rfc3339nano"
	return encoding.Value.Set(encoding.DefValue)
}

// disableSampling makes --zap-log-level=debug log every line. With that level, but not with a
// higher one, controller-runtime drops most lines above a hundred in a second, and tests that read
// the log would miss reconciles.
func disableSampling(flags *flag.FlagSet) error {
	level := flags.Lookup("zap-log-level").Value
	if level.String() == "debug" || level.String() == "1" {
		return level.Set("2")
	}
	return nil
}
