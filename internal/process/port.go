package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Ports are reserved below the range of ephemeral ports: a server that restarts must find its port
// free, and a client that keeps dialling it must not get the same port and connect to itself.
const firstPort, endPort = 10_000, 32_000

// ErrPortTaken is returned by Reserve for a port that is in use.
var ErrPortTaken = errors.New("port is taken")

// Port is a TCP port of one address that was free. It is reserved for all users of this package, in
// all processes, until it is released or this process ends.
type Port struct {
	Number int
	// lock is the UDP port of the same number, which no one else uses. Unlike a lock file, it is
	// released when the process ends.
	lock net.PacketConn
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

// Reserve reserves a port. It returns ErrPortTaken if the port is in use.
func Reserve(address string, number int) (*Port, error) {
	target := net.JoinHostPort(address, strconv.Itoa(number))
	lock, err := net.ListenPacket("udp", target)
	if err != nil {
		return nil, refused(err)
	}
	listener, err := net.Listen("tcp", target)
	if err != nil {
		lock.Close()
		return nil, refused(err)
	}
	listener.Close()
	return &Port{Number: number, lock: lock}, nil
}

// refused returns ErrPortTaken for a port in use, and another error otherwise.
func refused(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: %w", ErrPortTaken, err)
	}
	return fmt.Errorf("reserving a port: %w", err)
}

// Release releases the port.
func (p *Port) Release() { p.lock.Close() }
