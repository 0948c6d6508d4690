//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
)

// connect sets up a network without a connection to others: every packet has a route, as Kubernetes
// requires, and none leaves the namespace.
func connect() error {
	for _, command := range []string{
		"link set lo up",
		// A bridge, because not every kernel has dummy devices.
		"link add " + config.Uplink + " type bridge",
		"address add " + config.AddressPrefix + " dev " + config.Uplink,
		"link set " + config.Uplink + " up",
		"route add default dev " + config.Uplink,
	} {
		if err := ip(command); err != nil {
			return err
		}
	}
	// Pods reach each other through the node. The setting applies to this namespace only.
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
}

func ip(command string) error { return run("ip", strings.Fields(command)...) }

func run(program string, args ...string) error {
	if output, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
