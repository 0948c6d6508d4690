package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// node runs one NATS server, with the flags of nats-server, until the context ends.
func node(ctx context.Context, args []string) error {
	options, err := server.ConfigureOptions(flag.NewFlagSet("node", flag.ContinueOnError), args, nil, nil, nil)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	options.NoSigs = true
	s, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("making the server: %w", err)
	}
	s.ConfigureLogger()
	if err := server.Run(s); err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	<-ctx.Done()
	s.Shutdown() // it moves its leaderships to other servers
	s.WaitForShutdown()
	return nil
}
