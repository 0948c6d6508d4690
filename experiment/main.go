// Command ringmaster-experiment is what 'ringmaster experiment' runs: it loads the sample operator as a scenario says, in one or
// several setups, measures everything, and writes a report.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringmaster-project/ringmaster/experiment/command"
)

func main() {
	// What is wrong is told by errors. Libraries that find out that the API server is away tell nothing new.
	logf.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Who presses Ctrl-C again does not want to wait for the report. What comes at once is the same signal: timeout(1) sends it to
	// the process and to its group.
	const same = time.Second
	context.AfterFunc(ctx, func() { time.AfterFunc(same, stop) })
	err := command.New().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
