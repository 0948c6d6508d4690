// Package balancer is a TCP load balancer on the loopback interface, which stands in for a Service:
// one address for all replicas of a server. It guarantees that a connection reaches a replica that
// accepts it, if there is one.
package balancer

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
)

// Balancer forwards connections to replicas.
type Balancer struct {
	listener net.Listener
	targets  func() []string
}

// Start listens on a free port. targets returns the addresses of the replicas that can serve at the
// moment.
func Start(targets func() []string) (*Balancer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the replicas: %w", err)
	}
	b := &Balancer{listener, targets}
	go b.accept()
	return b, nil
}

// Address returns the address on which it listens.
func (b *Balancer) Address() string { return b.listener.Addr().String() }

// Close stops listening. Open connections stay open.
func (b *Balancer) Close() { b.listener.Close() }

func (b *Balancer) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return // the listener was closed
		}
		go b.serve(conn)
	}
}

func (b *Balancer) serve(conn net.Conn) {
	defer conn.Close()
	targets := b.targets()
	rand.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	for _, target := range targets {
		if replica, err := net.Dial("tcp", target); err == nil {
			relay(conn, replica)
			return
		}
	}
}

// relay copies data in both directions until one side closes its connection.
func relay(conn, replica net.Conn) {
	defer replica.Close()
	go func() {
		_, _ = io.Copy(replica, conn) // however it ends, the connection is done
		replica.Close()
	}()
	_, _ = io.Copy(conn, replica)
}
