//go:build !without_etcd

package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func init() { programs["etcd"] = runEtcd }

// runEtcd does not return when the member stops: etcdmain ends the process.
func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}
