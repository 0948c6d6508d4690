package balancer_test

import (
	"io"
	"net"
	"testing"

	"github.com/ringmaster-project/ringmaster/demo/balancer"
)

// replica listens, and sends its name to each client.
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
	connect := func() string {
		t.Helper()
		conn, err := net.Dial("tcp", b.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		name, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		return string(name)
	}
	names := map[string]bool{}
	for range 50 {
		names[connect()] = true
	}
	if len(names) != 2 {
		t.Errorf("only %v answered", names)
	}
	one.Close()
	for range 10 {
		if got := connect(); got != "two" {
			t.Errorf("%q answered after replica one was closed", got)
		}
	}
	two.Close()
	if got := connect(); got != "" {
		t.Errorf("%q answered without any replica", got)
	}
}
