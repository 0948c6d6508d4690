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

// options are the flags. Which cluster it works on is said by --kubeconfig, which controller-runtime
// adds, by $KUBECONFIG or by the pod that it runs in.
type options struct {
	shard   shard.Options
	manager manager.Options
	website website.Options
	log     zap.Options
}

const usage = `webhosting serves a page for every Website. Start as many instances as you like; --mode says how they
share the work:

  shard       each works on its own share, an external sharder gives it out (default)
  in-process  the same, and the instances elect one of them to be the sharder: nothing to install
  sharder     elected to be that sharder, but never works on Websites itself
  lead        one works on all Websites, the others wait to take over
  alone       works on all Websites at once, without any election: for development, start only one

Before the first start:  kubectl apply -k examples/webhosting/config/crds
On your machine:         webhosting --mode=alone --namespace=default

Flags:
`

// parse reads the flags. What --help shows is written to out.
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
	flags.Usage = func() {}     // all of it after each mistake would hide what the mistake is
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
		return o, fmt.Errorf("there is nothing to be done with %q; see webhosting --help", flags.Arg(0))
	case o.website.WorkTime < 0:
		return o, fmt.Errorf("--work-time=%s is in the past: give it 0 or more", o.website.WorkTime)
	case o.website.Concurrency < 1:
		return o, fmt.Errorf("--concurrency=%d would work on nothing: give it at least 1", o.website.Concurrency)
	}
	return o, keepAllLines(flags)
}

func (o *options) bind(flags *flag.FlagSet) {
	flags.Var(&o.shard.Mode, "mode", "how the instances share the work: shard, in-process, sharder, lead or alone")
	flags.StringVar(&o.shard.Ring, "ring", "webhosting-operator", "name of the ring, of its labels and Leases")
	flags.StringVar(&o.shard.Name, "shard-name", "", "name of this instance (default: $POD_NAME, or the host's name)")
	flags.StringVar(&o.shard.Namespace, "namespace", "", "namespace of the Leases (default: $POD_NAMESPACE, or the pod's)")
	flags.DurationVar(&o.shard.LeaseDuration, "lease-duration", shard.DefaultLeaseDuration, "how long a Lease lasts without a renewal")
	flags.DurationVar(&o.shard.RenewDeadline, "renew-deadline", shard.DefaultRenewDeadline, "how long to try to renew a Lease before giving up")
	flags.DurationVar(&o.shard.RetryPeriod, "retry-period", shard.DefaultRetryPeriod, "how often to renew a Lease")
	flags.IntVar(&o.website.Concurrency, "concurrency", 15, "how many Websites to work on at the same time")
	flags.DurationVar(&o.website.WorkTime, "work-time", 0, "how long to wait in each reconcile, as for an API that is far away: for experiments")
	flags.StringVar(&o.website.Image, "nginx-image", "nginx:stable", "image that serves the pages; it needs nginx on its PATH")
	flags.StringVar(&o.manager.HealthProbeBindAddress, "health-address", ":8081", "where to serve /healthz and /readyz; 0 turns it off")
	flags.StringVar(&o.manager.Metrics.BindAddress, "metrics-address", ":8080", "where to serve /metrics; 0 turns it off")
	flags.StringVar(&o.manager.PprofBindAddress, "pprof-address", "", "where to serve /debug/pprof, to whoever can reach it (default: nowhere)")
}

// projects are the namespaces whose Websites the sharder in this process spreads. An external one is told by
// the ControllerRing.
func projects() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{webhostingv1alpha1.LabelProject: "true"}}
}

// bindLog adds the flags of zap, with times that put the lines of several instances in order.
func (o *options) bindLog(flags *flag.FlagSet) error {
	const timeEncoding = "zap-time-encoding"
	o.log.DestWriter = os.Stderr
	o.log.BindFlags(flags)
	encoding := flags.Lookup(timeEncoding)
	encoding.DefValue, encoding.Usage = "rfc3339nano", "time of a line: epoch, millis, nanos, iso8601, rfc3339 or rfc3339nano"
	return encoding.Value.Set(encoding.DefValue)
}

// keepAllLines makes --zap-log-level=debug show every line. With that level, but not with a higher one,
// controller-runtime drops most of them when there are more than a hundred in a second, and who reads a
// history out of them would miss reconciles.
func keepAllLines(flags *flag.FlagSet) error {
	level := flags.Lookup("zap-log-level").Value
	if level.String() == "debug" || level.String() == "1" {
		return level.Set("2")
	}
	return nil
}
