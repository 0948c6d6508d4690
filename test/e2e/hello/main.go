// Command hello is a program that the end-to-end tests deploy. It uses only the standard library, so that its
// image is small and a failed test does not depend on client libraries.
//
//	hello               answers HTTP requests with its pod, version and user, until SIGTERM
//	hello get URL       sends requests to such a server, and prints the answers
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
