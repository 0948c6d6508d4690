// Command etcdcluster is the multi-region sample: an etcd cluster whose members are spread over regions, each with an
// operator of its own that agrees with the others before it disturbs the system. It is both the operator and the agent
// that runs a region's members as processes of this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

const usage = `etcdcluster manages an etcd cluster whose members are spread over regions.

  etcdcluster agent     runs the members of one region as processes of this machine
  etcdcluster operator  decides, together with those of the other regions, what becomes of the members

Each has a --help of its own. Before the first start:  kubectl apply -k examples/etcdcluster/config/crds
`

// command is one of what the first argument can be. What its --help shows is written to out.
type command func(ctx context.Context, args []string, out io.Writer) error

var commands = map[string]command{
	"agent":    runAgent,
	"operator": runOperator,
}

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("say what to run: agent or operator; see etcdcluster --help")
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		fmt.Fprint(out, usage)
		return nil
	}
	chosen, found := commands[args[0]]
	if !found {
		return fmt.Errorf("there is no %q; see etcdcluster --help", args[0])
	}
	return chosen(ctx, args[1:], out)
}

// parse reads the flags of a command, which are the ones that were bound and those of the log. The first mistake alone
// is told: all of the help after it would hide what it is.
func parse(flags *flag.FlagSet, log *zap.Options, args []string, about string, out io.Writer) error {
	if err := bindLog(flags, log); err != nil {
		return err
	}
	flags.Usage = func() {}
	flags.SetOutput(io.Discard) // the error is returned too
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(out)
		fmt.Fprint(out, about)
		flags.PrintDefaults()
		return err
	case err != nil:
		return fmt.Errorf("%w; see etcdcluster %s --help", err, flags.Name())
	case flags.NArg() > 0:
		return fmt.Errorf("there is nothing to be done with %q; see etcdcluster %s --help", flags.Arg(0), flags.Name())
	}
	return nil
}

// bindLog adds the flags of zap, with times that put the lines of several processes in order.
func bindLog(flags *flag.FlagSet, log *zap.Options) error {
	log.DestWriter = os.Stderr
	log.BindFlags(flags)
	encoding := flags.Lookup("zap-time-encoding")
	encoding.DefValue, encoding.Usage = "rfc3339nano", "time of a line: epoch, millis, nanos, iso8601, rfc3339 or rfc3339nano"
	return encoding.Value.Set(encoding.DefValue)
}
