package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"
)

const (
	// clockOffProgram is the operator with a clock that is off, by what the variable says.
	clockOffProgram  = "operator-with-clock-off"
	clockOffVariable = "ETCDCLUSTER_CLOCK_OFF"
)

// clockOff is a clock that is off. Time passes on it as on any other.
type clockOff struct {
	clock.RealClock
	off time.Duration
}

func (c clockOff) Now() time.Time                  { return c.RealClock.Now().Add(c.off) }
func (c clockOff) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// runOperatorWithClockOff is the operator as main runs it, but for the clock.
func runOperatorWithClockOff(ctx context.Context) error {
	off, err := time.ParseDuration(os.Getenv(clockOffVariable))
	if err != nil {
		return fmt.Errorf("reading %s: %w", clockOffVariable, err)
	}
	o, err := parseOperator(os.Args[2:], os.Stderr) // what is before that is the program and "operator"
	if err != nil {
		return err
	}
	o.clock = clockOff{off: off}
	return o.run(ctx)
}
