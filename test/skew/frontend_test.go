package skew_test

import (
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// frontend is the address of the webhook for the API server, like a Service. The test selects the replica of the
// sharder behind it.
type frontend struct {
	listener net.Listener

	mu      sync.Mutex
	replica string // host and port, or "" for none
	open    []net.Conn
}

func newFrontend(t *testing.T) *frontend {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &frontend{listener: listener}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			go f.serve(conn)
		}
	}()
	return f
}

func (f *frontend) url() string { return "https://" + f.listener.Addr().String() }

// use selects the replica with a port, and closes the API server's connections to the previous one.
func (f *frontend) use(port int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replica = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for _, conn := range f.open {
		_ = conn.Close()
	}
	f.open = nil
}

func (f *frontend) accept(conn net.Conn) (replica string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = append(f.open, conn)
	return f.replica
}

func (f *frontend) serve(conn net.Conn) {
	defer conn.Close()
	replica, err := net.Dial("tcp", f.accept(conn))
	if err != nil {
		return // which closes the connection
	}
	defer replica.Close()
	go func() {
		_, _ = io.Copy(replica, conn)
		_ = replica.Close()
	}()
	_, _ = io.Copy(conn, replica)
}
