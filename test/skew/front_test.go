package skew_test

import (
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// front is the address of the webhook for the API server, as a Service is. The test chooses which replica of the
// sharder answers.
type front struct {
	listener net.Listener

	mu      sync.Mutex
	replica string // host and port, or "" for none
	open    []net.Conn
}

func newFront(t *testing.T) *front {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{listener: listener}
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

func (f *front) url() string { return "https://" + f.listener.Addr().String() }

// use makes the replica with this port answer, also on behalf of the one whose connections the API server
// has open.
func (f *front) use(port int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replica = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for _, conn := range f.open {
		_ = conn.Close()
	}
	f.open = nil
}

func (f *front) accept(conn net.Conn) (replica string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = append(f.open, conn)
	return f.replica
}

func (f *front) serve(conn net.Conn) {
	defer conn.Close()
	replica, err := net.Dial("tcp", f.accept(conn))
	if err != nil {
		return // which the API server sees as an ended connection
	}
	defer replica.Close()
	go func() {
		_, _ = io.Copy(replica, conn)
		_ = replica.Close()
	}()
	_, _ = io.Copy(conn, replica)
}
