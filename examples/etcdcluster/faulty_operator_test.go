package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
)

const (
	// faultyProgram runs the operator as main does, with faults that these environment variables define: the skew
	// of its clock, and a proxy between it and the members.
	faultyProgram       = "operator-with-faults"
	clockSkewVariable   = "ETCDCLUSTER_CLOCK_OFF"
	memberProxyVariable = "ETCDCLUSTER_ROAD"
)

// faultEnv returns the environment variables with the faults of an operator.
func (r *region) faultEnv() (env []string) {
	if r.clockSkew != 0 {
		env = append(env, clockSkewVariable+"="+r.clockSkew.String())
	}
	if r.memberProxy != nil {
		env = append(env, memberProxyVariable+"="+r.memberProxy.Address())
	}
	return env
}

// runFaulty is the main function of faultyProgram.
func runFaulty(ctx context.Context) error {
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		return err
	}
	if value := os.Getenv(clockSkewVariable); value != "" {
		off, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("reading %s: %w", clockSkewVariable, err)
		}
		o.Clock = skewedClock{off: off}
	}
	if address := os.Getenv(memberProxyVariable); address != "" {
		o.Dial = dialThrough(address)
	}
	return o.run(ctx)
}

// skewedClock is a clock that is off by a constant duration.
type skewedClock struct {
	clock.RealClock
	off time.Duration
}

func (c skewedClock) Now() time.Time                  { return c.RealClock.Now().Add(c.off) }
func (c skewedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// newMemberProxy starts a proxy between one operator and all present and future members. It does not affect
// other operators, nor the traffic between members.
func newMemberProxy(t testing.TB) *faultproxy.Proxy {
	t.Helper()
	crossing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = crossing.Close() })
	go func() {
		for {
			conn, err := crossing.Accept()
			if err != nil {
				return
			}
			go forward(conn)
		}
	}()
	proxy, err := faultproxy.StartTCP(crossing.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

// forward reads the address of a member from a connection, and forwards the connection to it.
func forward(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	address, err := reader.ReadString('\n')
	if err != nil {
		return
	}
	member, err := net.Dial("tcp", strings.TrimSpace(address))
	if err != nil {
		return // the client sees a closed connection
	}
	defer member.Close()
	go func() {
		_, _ = io.Copy(member, reader)
		_ = member.Close()
	}()
	_, _ = io.Copy(conn, member)
}

// dialThrough returns a dialer that reaches members through the proxy.
func dialThrough(road string) func(ctx context.Context, member string) (net.Conn, error) {
	return func(ctx context.Context, member string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", road)
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintln(conn, member); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
}
