// Command ringmaster-experiment is what 'ringmaster experiment' runs: it loads the sample operator as a scenario says, in one or
// several setups, measures everything, and writes a report.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringmaster-project/ringmaster/experiment/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command.New().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
