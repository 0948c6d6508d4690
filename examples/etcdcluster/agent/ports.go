package agent

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
)

// PortRange is the range of the members' ports. It is a flag.
type PortRange struct{ First, Last int }

// anyPorts are below the ephemeral ports of operating systems: a member that is down for a moment must find its
// port free.
var anyPorts = PortRange{10_000, 32_000}

// String returns a range in the format of Set.
func (r *PortRange) String() string {
	if r == nil || *r == (PortRange{}) {
		return ""
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Set parses a range, such as 21790-21799.
func (r *PortRange) Set(value string) error {
	first, last, found := strings.Cut(value, "-")
	var err error
	read := PortRange{}
	if read.First, err = strconv.Atoi(first); err == nil {
		read.Last, err = strconv.Atoi(last)
	}
	if !found || err != nil || read.First < 1 || read.Last > 65535 || read.Last <= read.First {
		return fmt.Errorf("invalid port range %q: use a range such as 21790-21799", value)
	}
	*r = read
	return nil
}

// candidates returns the ports to try: those of the range in order, so that the first ports are predictable, or
// else random ones.
func (r *PortRange) candidates() []int {
	var ports []int
	if *r != (PortRange{}) {
		for port := r.First; port <= r.Last; port++ {
			ports = append(ports, port)
		}
		return ports
	}
	const tries = 200
	for range tries {
		ports = append(ports, anyPorts.First+rand.IntN(anyPorts.Last-anyPorts.First))
	}
	return ports
}

// port is a reserved port. Other agents cannot reserve it while this process holds the UDP port with the same
// number, which no member uses.
type port struct {
	number int
	conn   net.PacketConn
}

func (p *port) release() {
	if p != nil {
		p.conn.Close()
	}
}

// reservePort reserves a port.
func reservePort(number int) (*port, error) {
	taken, err := net.ListenPacket("udp", net.JoinHostPort(loopback, strconv.Itoa(number)))
	if err != nil {
		return nil, err
	}
	return &port{number, taken}, nil
}

// reserveFree reserves a port that no other agent has reserved and no process listens on.
func (r *PortRange) reserveFree() (*port, error) {
	var last error
	for _, number := range r.candidates() {
		reserved, err := reservePort(number)
		if err != nil {
			last = err
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(number)))
		if err == nil {
			return reserved, listener.Close()
		}
		reserved.release()
		last = err
	}
	return nil, fmt.Errorf("no free port in %s: %w", r, last)
}
