// Package balancer is to the API server what a Service is: one address for all replicas of a server. It
// promises that a connection is brought to a replica that accepts it, if there is one.
package balancer

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
)

// Balancer brings connections to replicas.
type Balancer struct {
	listener net.Listener
	targets  func() []string
}

// Start listens on a free port of this machine. The function tells who can serve at the moment.
func Start(targets func() []string) (*Balancer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the replicas: %w", err)
	}
	b := &Balancer{listener, targets}
	go b.accept()
	return b, nil
}

// Address is where it listens.
func (b *Balancer) Address() string { return b.listener.Addr().String() }

// Close takes no more connections.
func (b *Balancer) Close() { b.listener.Close() }

func (b *Balancer) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return // it was closed
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

// relay brings what either side says to the other until one has ended.
func relay(conn, replica net.Conn) {
	defer replica.Close()
	go func() {
		_, _ = io.Copy(replica, conn) // however that ends, it has ended
		replica.Close()
	}()
	_, _ = io.Copy(conn, replica)
}
