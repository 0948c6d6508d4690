// Command ringmaster-demo carries out 'ringmaster demo' and 'ringmaster up': it runs a sample
// operator in several instances on a control plane of this machine.
package main

import (
	"fmt"
	"os"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/interrupt"
	"github.com/ringmaster-project/ringmaster/demo/command"
)

func main() {
	if err := command.New().ExecuteContext(interrupt.Context()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
