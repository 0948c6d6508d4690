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
	// faultyProgram is the operator as main runs it, but for what these variables say: by how much its clock is off, and
	// what it goes through to reach the members.
	faultyProgram    = "operator-with-faults"
	clockOffVariable = "ETCDCLUSTER_CLOCK_OFF"
	roadVariable     = "ETCDCLUSTER_ROAD"
)

// faults are what an operator is told to have.
func (r *region) faults() (env []string) {
	if r.clockOff != 0 {
		env = append(env, clockOffVariable+"="+r.clockOff.String())
	}
	if r.road != nil {
		env = append(env, roadVariable+"="+r.road.Address())
	}
	return env
}

// runFaulty is the program.
func runFaulty(ctx context.Context) error {
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		return err
	}
	if value := os.Getenv(clockOffVariable); value != "" {
		off, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("reading %s: %w", clockOffVariable, err)
		}
		o.Clock = clockOff{off: off}
	}
	if address := os.Getenv(roadVariable); address != "" {
		o.Dial = along(address)
	}
	return o.run(ctx)
}

// clockOff is a clock that is off. Time passes on it as on any other.
type clockOff struct {
	clock.RealClock
	off time.Duration
}

func (c clockOff) Now() time.Time                  { return c.RealClock.Now().Add(c.off) }
func (c clockOff) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// road makes the network between one operator and all members, wherever they are, and whichever will come. It is that of
// one operator: others reach the members nevertheless, and so do the members each other.
func road(t testing.TB) *faultproxy.Proxy {
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
			go bring(conn)
		}
	}()
	made, err := faultproxy.StartTCP(crossing.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

// bring reads where somebody wants to go, and passes on what is said.
func bring(conn net.Conn) {
	defer conn.Close()
	said := bufio.NewReader(conn)
	address, err := said.ReadString('\n')
	if err != nil {
		return
	}
	member, err := net.Dial("tcp", strings.TrimSpace(address))
	if err != nil {
		return // it shows as what it is: nobody is there
	}
	defer member.Close()
	go func() {
		_, _ = io.Copy(member, said)
		_ = member.Close()
	}()
	_, _ = io.Copy(conn, member)
}

// along dials members along a road.
func along(road string) func(ctx context.Context, member string) (net.Conn, error) {
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
