//go:build linux

package enclosure

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/layout"
)

// connect gives the namespace a network that ends at its border: every packet has a route, as
// Kubernetes wants it, and none gets out.
func connect() error {
	for _, command := range []string{
		"link set lo up",
		// A bridge, because not every kernel has dummy devices.
		"link add " + layout.Uplink + " type bridge",
		"address add " + layout.AddressPrefix + " dev " + layout.Uplink,
		"link set " + layout.Uplink + " up",
		"route add default dev " + layout.Uplink,
	} {
		if err := ip(command); err != nil {
			return err
		}
	}
	// Pods reach each other through the node. This setting is the namespace's own.
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
}

func ip(command string) error { return run("ip", strings.Fields(command)...) }

func run(program string, args ...string) error {
	if said, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(said)))
	}
	return nil
}
