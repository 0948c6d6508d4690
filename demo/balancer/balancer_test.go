package balancer_test

import (
	"io"
	"net"
	"testing"

	"github.com/ringmaster-project/ringmaster/demo/balancer"
)

// replica says its name to everybody.
func replica(t *testing.T, name string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, name)
			conn.Close()
		}
	}()
	return listener
}

func TestBalancer(t *testing.T) {
	one, two := replica(t, "one"), replica(t, "two")
	targets := []string{one.Addr().String(), two.Addr().String()}
	b, err := balancer.Start(func() []string { return append([]string{}, targets...) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	ask := func() string {
		t.Helper()
		conn, err := net.Dial("tcp", b.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		said, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		return string(said)
	}
	heard := map[string]bool{}
	for range 50 {
		heard[ask()] = true
	}
	if len(heard) != 2 {
		t.Errorf("only %v answered", heard)
	}
	one.Close()
	for range 10 {
		if got := ask(); got != "two" {
			t.Errorf("%q answered, and one is not there any more", got)
		}
	}
	two.Close()
	if got := ask(); got != "" {
		t.Errorf("%q answered, and nobody is there", got)
	}
}
