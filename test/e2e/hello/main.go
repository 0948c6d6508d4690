// Command hello is the program that the end-to-end tests deploy. It uses the standard library
// only, so that its image is small and a failing test never has a client library to blame.
//
//	hello               answers HTTP requests with who it is, until SIGTERM
//	hello get URL       asks such a server, and prints what it answers
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "get" {
		return get(ctx, args[1:])
	}
	return serve(ctx, args)
}
