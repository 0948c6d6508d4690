// Command etcdagent plays the node of one region for examples/etcdcluster: it runs the region's etcd members as processes of
// this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
)

const usage = `etcdagent plays the part of the kubelet for the members of one region: it starts etcd processes on this machine,
keeps those running that should run, and takes no order that is older than one before. It has no authentication: keep it on
loopback.

On your machine:  etcdagent --region=dc1 --dir=/tmp/dc1 --etcd=bin/kubernetes/etcd

Flags:
`

type options struct {
	agent.Options
	address string
	log     zap.Options
}

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
	o.Log = zap.New(zap.UseFlagOptions(&o.log))
	return agent.Run(ctx, o.address, o.Options)
}

// parse reads the flags. It writes the output of --help to out.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("etcdagent", flag.ContinueOnError)
	flags.StringVar(&o.address, "address", "127.0.0.1:7070", "address on which the agent serves the operator")
	flags.StringVar(&o.Dir, "dir", "", "folder for the state of the agent and the data of the members")
	flags.StringVar(&o.Etcd, "etcd", "", "path of the etcd binary")
	flags.StringVar(&o.Versions, "etcd-versions", "", "folder with other versions of etcd, as <version>/etcd")
	flags.StringVar(&o.Region, "region", "", "name of the region")
	flags.StringVar(&o.Peers.Cert, "peer-cert", "", "certificate of the members for peer connections, as servers and as clients (default: peers talk without TLS)")
	flags.StringVar(&o.Peers.Key, "peer-key", "", "key of --peer-cert")
	flags.StringVar(&o.Peers.CA, "peer-ca", "", "CA that signs the peer certificates of all regions")
	flags.Var(&o.Ports, "ports", "range of ports for the members, such as 21790-21799 (default: any free ports)")
	o.log.DestWriter = os.Stderr
	o.log.BindFlags(flags)
	// With nanoseconds, the lines of several processes can be put in order.
	encoding := flags.Lookup("zap-time-encoding")
	encoding.DefValue = "rfc3339nano"
	if err := encoding.Value.Set(encoding.DefValue); err != nil {
		return o, err
	}
	flags.Usage = func() {}
	flags.SetOutput(io.Discard) // the error is returned too
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(out)
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w; see etcdagent --help", err)
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; see etcdagent --help", flags.Arg(0))
	}
	if set := []bool{o.Peers.Cert != "", o.Peers.Key != "", o.Peers.CA != ""}; slices.Contains(set, true) && slices.Contains(set, false) {
		return o, errors.New("--peer-cert, --peer-key and --peer-ca go together; see etcdagent --help")
	}
	for name, value := range map[string]string{"dir": o.Dir, "etcd": o.Etcd, "region": o.Region} {
		if value == "" {
			return o, fmt.Errorf("--%s is missing; see etcdagent --help", name)
		}
	}
	return o, nil
}
