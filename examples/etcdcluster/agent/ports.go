package agent

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
)

// PortRange is where members get their ports from. It is a flag.
type PortRange struct{ First, Last int }

// anyPorts are below those that systems use for outgoing connections: a member that is down for a moment must find
// its port free again.
var anyPorts = PortRange{10_000, 32_000}

// String writes a range as Set reads it.
func (r *PortRange) String() string {
	if r == nil || *r == (PortRange{}) {
		return ""
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Set reads a range, such as 21790-21799.
func (r *PortRange) Set(value string) error {
	first, last, found := strings.Cut(value, "-")
	var err error
	read := PortRange{}
	if read.First, err = strconv.Atoi(first); err == nil {
		read.Last, err = strconv.Atoi(last)
	}
	if !found || err != nil || read.First < 1 || read.Last > 65535 || read.Last <= read.First {
		return fmt.Errorf("%q is no range of ports, such as 21790-21799", value)
	}
	*r = read
	return nil
}

// candidates are the ports to try: those of a given range in their order, so that people know where the first member
// will be, and else some by chance.
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

// port is one that nobody else who asks in this way gets while it is held. The UDP port of the same number is in
// nobody's way, cannot be had twice, and goes with the process.
type port struct {
	number int
	hold   net.PacketConn
}

func (p *port) release() {
	if p != nil {
		p.hold.Close()
	}
}

// hold takes a certain port from others that ask in this way.
func hold(number int) (*port, error) {
	taken, err := net.ListenPacket("udp", net.JoinHostPort(loopback, strconv.Itoa(number)))
	if err != nil {
		return nil, err
	}
	return &port{number, taken}, nil
}

// free finds a port that nobody holds or listens on.
func (r *PortRange) free() (*port, error) {
	var last error
	for _, number := range r.candidates() {
		held, err := hold(number)
		if err != nil {
			last = err
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(number)))
		if err == nil {
			return held, listener.Close()
		}
		held.release()
		last = err
	}
	return nil, fmt.Errorf("no free port in %s: %w", r, last)
}
