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

// frontend is the address of the webhooks of all replicas for the API server, like a Service. It forwards a
// connection to a replica that accepts it.
type frontend struct {
	listener net.Listener
	random   *rand.Rand

	mu        sync.Mutex
	targets   []string
	preferred string // tried before all others, or ""
	refused   bool
	open      []net.Conn // including closed ones
}

func newFrontend(t *testing.T) *frontend {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &frontend{listener: listener, random: seed.Rand(t)}
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

func (b *frontend) url() string { return "https://" + b.listener.Addr().String() }

func (b *frontend) add(port int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = append(b.targets, target(port))
}

func target(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// prefer forwards all connections to one replica while it accepts them.
func (b *frontend) prefer(port int) {
	b.mu.Lock()
	b.preferred = target(port)
	b.mu.Unlock()
	b.refuse(false) // so that API servers connect again
}

// refuse makes all replicas unreachable, also on open connections.
func (b *frontend) refuse(refused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = refused
	for _, conn := range b.open {
		_ = conn.Close()
	}
	b.open = nil
}

// accept adds a connection, and returns the replicas to try in order.
func (b *frontend) accept(conn net.Conn) (targets []string) {
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

func (b *frontend) serve(conn net.Conn) {
	defer conn.Close()
	for _, target := range b.accept(conn) {
		if replica, err := net.Dial("tcp", target); err == nil {
			relay(conn, replica)
			return
		}
	}
}

// relay forwards bytes in both directions until one side closes the connection.
func relay(conn, replica net.Conn) {
	defer replica.Close()
	go func() {
		_, _ = io.Copy(replica, conn)
		_ = replica.Close()
	}()
	_, _ = io.Copy(conn, replica)
}
