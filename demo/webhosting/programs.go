package webhosting

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

const sharder = "sharder"

// FindPrograms returns the folder if it has what a demo in that mode runs.
func FindPrograms(folder, mode string) (string, error) {
	return cluster.FindPrograms(folder, programs(mode)...)
}

// instance is what to run for an instance of the operator.
func (d *Demo) instance(number int) supervisor.Program {
	name := InstanceName(number)
	return d.Program(cluster.Job{
		Name: name, Namespace: d.example.namespace, Account: d.example.ring, Program: d.example.program,
		Args: []string{
			"--mode=" + d.options.Mode,
			"--health-address=0", "--metrics-address=0",
			// So that each reconcile is in the log: who wants to know who worked on what can read it there.
			"--zap-log-level=debug",
		},
	})
}

// replica is what to run for a replica of the sharder. The API server reaches all of them through one
// address, as it would through a Service.
func (d *Demo) replica(number int) (supervisor.Program, error) {
	port, err := process.ReservePort("127.0.0.1")
	if err != nil {
		return supervisor.Program{}, err
	}
	name := sharder + "-" + strconv.Itoa(number)
	d.ports = append(d.ports, port)
	d.webhooks[name] = "127.0.0.1:" + strconv.Itoa(port.Number)
	path := filepath.Join(d.Folder(name), "config.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, `apiVersion: config.sharding.timebertt.dev/v1alpha1
kind: SharderConfig
health: {bindAddress: "0"}
metrics: {bindAddress: "0"}
webhook:
  config:
    clientConfig:
      url: https://%s
`, d.balancer.Address()), 0o600); err != nil {
		return supervisor.Program{}, fmt.Errorf("configuring the sharder: %w", err)
	}
	return d.Program(cluster.Job{
		Name: name, Namespace: shardingv1alpha1.NamespaceSystem, Account: sharder, Program: sharder,
		Args: []string{"--config", path, "--webhook-port", strconv.Itoa(port.Number)},
	}), nil
}
