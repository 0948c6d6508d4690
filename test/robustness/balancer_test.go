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

	mu        sync.Mutex
	targets   []string
	preferred string // tried before all others, or ""
	refused   bool
	open      []net.Conn // and some that have ended
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
	b.targets = append(b.targets, target(port))
}

func target(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// prefer brings all connections to one replica for as long as that accepts them.
func (b *balancer) prefer(port int) {
	b.mu.Lock()
	b.preferred = target(port)
	b.mu.Unlock()
	b.refuse(false) // so that API servers connect again
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

// accept takes a connection up, and returns the replicas that can serve it, in the order in which they are tried.
func (b *balancer) accept(conn net.Conn) (targets []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused {
		return nil
	}
	b.open = append(b.open, conn)
	targets = slices.Clone(b.targets)
	b.random.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	if b.preferred != "" {
		targets = slices.Insert(targets, 0, b.preferred)
	}
	return targets
}

func (b *balancer) serve(conn net.Conn) {
	defer conn.Close()
	for _, target := range b.accept(conn) {
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
