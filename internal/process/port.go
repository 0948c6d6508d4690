package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Ports are taken from below the range that systems use for outgoing connections: a server that is
// down for a moment must find its port free again, and a client that keeps trying to reach it
// must not be given that very port and connect to itself.
const firstPort, endPort = 10_000, 32_000

// ErrPortTaken is returned by Reserve for a port that somebody else uses.
var ErrPortTaken = errors.New("port is taken")

// Port is a TCP port of one address that was free and is kept from other users of this package, in
// all processes, until it is released or this process ends.
type Port struct {
	Number int
	// hold is the UDP port of the same number: it is in nobody's way, cannot be had twice, and
	// goes with the process, which no lock file does.
	hold net.PacketConn
}

// ReservePort finds a free port.
func ReservePort(address string) (*Port, error) {
	const tries = 200
	var last error
	for range tries {
		port, err := Reserve(address, firstPort+rand.IntN(endPort-firstPort))
		if err == nil {
			return port, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no free port on %s between %d and %d after %d tries: %w", address, firstPort, endPort, tries, last)
}

// Reserve takes a certain port. The error is ErrPortTaken when it is not to be had.
func Reserve(address string, number int) (*Port, error) {
	target := net.JoinHostPort(address, strconv.Itoa(number))
	hold, err := net.ListenPacket("udp", target)
	if err != nil {
		return nil, refused(err)
	}
	listener, err := net.Listen("tcp", target)
	if err != nil {
		hold.Close()
		return nil, refused(err)
	}
	listener.Close()
	return &Port{Number: number, hold: hold}, nil
}

// refused tells a port that somebody has from one that this user may not have.
func refused(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: %w", ErrPortTaken, err)
	}
	return fmt.Errorf("port cannot be had: %w", err)
}

// Release lets others have the port.
func (p *Port) Release() { p.hold.Close() }
