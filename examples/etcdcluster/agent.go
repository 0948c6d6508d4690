package main

import (
	"context"
	"errors"
	"flag"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
)

const agentUsage = `etcdcluster agent plays the part of the kubelet for the members of one region: it starts etcd processes on this
machine, keeps those running that should run, and takes no order that is older than one before. It has no
authentication: keep it on loopback.

On your machine:  etcdcluster agent --region=dc1 --dir=/tmp/dc1 --etcd=bin/kubernetes/etcd

Flags:
`

type agentOptions struct {
	agent.Options
	address string
	log     zap.Options
}

func parseAgent(args []string, out io.Writer) (agentOptions, error) {
	var o agentOptions
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.StringVar(&o.address, "address", "127.0.0.1:7070", "where the operator reaches the agent")
	flags.StringVar(&o.Dir, "dir", "", "folder for what the agent remembers, and for the members' data")
	flags.StringVar(&o.Etcd, "etcd", "", "path of the etcd binary")
	flags.StringVar(&o.Versions, "etcd-versions", "", "folder with other versions of etcd, as <version>/etcd, for members that want one of them")
	flags.StringVar(&o.Region, "region", "", "name of the region")
	flags.Var(&o.Ports, "ports", "ports that members get, in their order, such as 21790-21799 (default: any that are free)")
	if err := parse(flags, &o.log, args, agentUsage, out); err != nil {
		return o, err
	}
	for flag, value := range map[string]string{"dir": o.Dir, "etcd": o.Etcd, "region": o.Region} {
		if value == "" {
			return o, errors.New("--" + flag + " is missing; see etcdcluster agent --help")
		}
	}
	return o, nil
}

func runAgent(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseAgent(args, out)
	if err != nil {
		return err
	}
	o.Log = zap.New(zap.UseFlagOptions(&o.log))
	return agent.Run(ctx, o.address, o.Options)
}
