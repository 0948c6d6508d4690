// Command kubernetes is a whole Kubernetes in one binary: etcd, the control plane, kubelet and
// kube-proxy, and kubectl. A symbolic link with the name of a program starts that program, so the
// programs are linked once and share one file on disk. Each program is in a file of its own; the
// build tag without_NAME, such as without_kube_proxy, leaves it out.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJobs with a time zone, on machines without a zone database

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// programs maps the name of a link to the program that it starts. Each function returns the exit code.
var programs = map[string]func() int{}

func main() {
	run, known := programs[filepath.Base(os.Args[0])]
	if !known {
		names := slices.Sorted(maps.Keys(programs))
		fmt.Fprintf(os.Stderr, "%s has several programs: start it through a link named %s\n",
			filepath.Base(os.Args[0]), strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

// daemon runs a command of Kubernetes.
func daemon(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}
