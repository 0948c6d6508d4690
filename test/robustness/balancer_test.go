package robustness_test

import (
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/ringmaster-project/ringmaster/internal/seed"
)

// balancer is what a Service is to the API server: one address for the webhooks of all replicas,
// which brings a connection to one that accepts it.
type balancer struct {
	listener net.Listener
	random   *rand.Rand

	mu      sync.Mutex
	targets []string
	refused bool
	open    []net.Conn // and some that have ended
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: listener, random: seed.Rand(t)}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			go b.serve(conn)
		}
	}()
	return b
}

func (b *balancer) url() string { return "https://" + b.listener.Addr().String() }

func (b *balancer) add(port int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = append(b.targets, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// refuse makes all replicas unreachable, also on connections that are open.
func (b *balancer) refuse(refused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = refused
	for _, conn := range b.open {
		_ = conn.Close()
	}
	b.open = nil
}

// accept takes a connection up, and returns who can serve it.
func (b *balancer) accept(conn net.Conn) (targets []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused {
		return nil
	}
	b.open = append(b.open, conn)
	return slices.Clone(b.targets)
}

func (b *balancer) serve(conn net.Conn) {
	defer conn.Close()
	targets := b.accept(conn)
	b.random.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
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
		_, _ = io.Copy(replica, conn)
		_ = replica.Close()
	}()
	_, _ = io.Copy(conn, replica)
}
