package faultproxy_test

import (
	"io"
	"net"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
)

// echo is a server that returns what it receives.
func echo(t *testing.T) (address string) {
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
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func TestTCP(t *testing.T) {
	g := NewWithT(t)
	proxy, err := faultproxy.StartTCP(echo(t))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(proxy.Close()).To(Succeed()) })
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", proxy.Address())
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	// say sends text and returns the response within a timeout.
	say := func(conn net.Conn, words string, timeout time.Duration) (string, error) {
		if _, err := conn.Write([]byte(words)); err != nil {
			return "", err
		}
		g.Expect(conn.SetReadDeadline(time.Now().Add(timeout))).To(Succeed())
		heard := make([]byte, len(words))
		_, err := io.ReadFull(conn, heard)
		return string(heard), err
	}
	const long, short = 30 * time.Second, 300 * time.Millisecond
	conn := dial()
	g.Expect(say(conn, "one", long)).To(Equal("one"))
	for name, direction := range map[string]faultproxy.Direction{"to the server": faultproxy.ToServer, "to the client": faultproxy.ToClient} {
		proxy.Cut(direction)
		_, err = say(conn, "two", short)
		g.Expect(err).To(HaveOccurred(), "cut "+name)
		proxy.Heal()
		g.Expect(say(conn, "six", long)).To(Equal("two"), "what was cut arrives when the partition is healed")
		g.Expect(say(conn, "two", long)).To(Equal("six"))
		_, err = io.ReadFull(conn, make([]byte, len("two")))
		g.Expect(err).NotTo(HaveOccurred())
	}
	proxy.Refuse()
	_, err = say(conn, "three", long)
	g.Expect(err).To(HaveOccurred(), "the connection has ended")
	if refused, err := net.Dial("tcp", proxy.Address()); err == nil { // the reset may come before or after Dial returns
		_, err = say(refused, "three", long)
		g.Expect(err).To(HaveOccurred(), "no new one is accepted")
		refused.Close()
	}
	proxy.Heal()
	g.Expect(say(dial(), "three", long)).To(Equal("three"))
}
