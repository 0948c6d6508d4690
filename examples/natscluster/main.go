// Command natscluster runs the parts of the example: NATS servers, the agents that start them, and the operators.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringmaster-project/ringmaster/examples/natscluster/agent"
	"github.com/ringmaster-project/ringmaster/examples/natscluster/operator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the signals end with the process
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: natscluster node|agent|operator [flags]")
	}
	switch args[0] {
	case "node":
		return node(ctx, args[1:])
	case "agent":
		return agent.Main(ctx, args[1:])
	case "operator":
		return operator.Main(ctx, args[1:])
	}
	return fmt.Errorf("unknown command %q (available: node, agent, operator)", args[0])
}
