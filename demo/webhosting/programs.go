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

// FindPrograms returns the absolute path of the folder if it has the programs of a mode.
func FindPrograms(folder, mode string) (string, error) {
	return cluster.FindPrograms(folder, programs(mode)...)
}

// instance returns the program of an instance of the operator.
func (d *Demo) instance(number int) supervisor.Program {
	name := InstanceName(number)
	return d.Program(cluster.ProcessSpec{
		Name: name, Namespace: d.example.namespace, Account: d.example.ring, Program: d.example.program,
		Args: []string{
			"--mode=" + d.options.Mode,
			"--health-address=0", "--metrics-address=0",
			// Logs each reconcile, so that the log shows which instance reconciled which object.
			"--zap-log-level=debug",
		},
	})
}

// replica returns the program of a replica of the sharder. The API server reaches all replicas at
// the address of the load balancer, as it would through a Service.
func (d *Demo) replica(number int) (supervisor.Program, error) {
	port, err := process.ReservePort("127.0.0.1")
	if err != nil {
		return supervisor.Program{}, err
	}
	name := sharder + "-" + strconv.Itoa(number)
	d.ports = append(d.ports, port)
	d.webhookAddresses[name] = "127.0.0.1:" + strconv.Itoa(port.Number)
	path := filepath.Join(d.ProcessDir(name), "config.yaml")
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
	return d.Program(cluster.ProcessSpec{
		Name: name, Namespace: shardingv1alpha1.NamespaceSystem, Account: sharder, Program: sharder,
		Args: []string{"--config", path, "--webhook-port", strconv.Itoa(port.Number)},
	}), nil
}
