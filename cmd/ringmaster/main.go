// Command ringmaster is Ringmaster's command line for people.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The first signal asks for an end in good order. The second one ends the process at once, and
	// with it everything that it started.
	context.AfterFunc(ctx, stop)
	if err := app.New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
