// Command sharder is the external sharder: it spreads the objects of ControllerRings over the
// shards that join them.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/ringmaster-project/ringmaster/cmd/sharder/app"
)

func main() {
	if err := app.New().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
