// Command ringmaster is the command line for people who run rings.
package main

import (
	"fmt"
	"os"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/app"
	"github.com/ringmaster-project/ringmaster/internal/interrupt"
)

func main() {
	if err := app.As(os.Args[0]).ExecuteContext(interrupt.Context()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(app.ExitCode(err))
	}
}
