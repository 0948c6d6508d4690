package faultproxy

import (
	"io"
	"net"
	"sync"
	"time"
)

// gate blocks callers of pass while it is closed.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		if !open {
			g.open = make(chan struct{})
		}
	default:
		if open {
			close(g.open)
		}
	}
}

// pass waits until the gate is open. It returns false if ended is closed before.
func (g *gate) pass(ended <-chan struct{}) bool {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return true
	case <-ended:
		return false
	}
}

// faultyConn applies the proxy's faults to a client's connection.
type faultyConn struct {
	net.Conn
	proxy *Proxy
	once  sync.Once
	ended chan struct{}
}

// Read reads from the client.
func (c *faultyConn) Read(buffer []byte) (int, error) {
	n, err := c.Conn.Read(buffer)
	if !c.passGate(c.proxy.up) {
		return 0, net.ErrClosed
	}
	c.proxy.sent.Add(int64(n))
	return n, err
}

// Write writes to the client.
func (c *faultyConn) Write(data []byte) (int, error) {
	if !c.passGate(c.proxy.down) {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Write(data)
	c.proxy.received.Add(int64(n))
	return n, err
}

func (c *faultyConn) passGate(direction *gate) bool {
	if delay := time.Duration(c.proxy.delay.Load()); delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.ended:
			return false
		}
	}
	return direction.pass(c.ended)
}

func (c *faultyConn) Close() error {
	c.once.Do(func() {
		close(c.ended)
		c.proxy.forget(c)
	})
	return c.Conn.Close()
}

// reset resets the connection, so that the client gets an error at once.
func (c *faultyConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// gatedBody delays the events in the response body of a watch.
type gatedBody struct {
	io.ReadCloser
	gate  *gate
	ended <-chan struct{}
}

func (b *gatedBody) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	if !b.gate.pass(b.ended) {
		return 0, io.ErrClosedPipe
	}
	return n, err
}
