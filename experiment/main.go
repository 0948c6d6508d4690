// Command ringmaster-experiment implements 'ringmaster experiment': it generates load for the sample operator, in one or several
// setups, measures all processes, and writes a report.
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
	// Errors are returned. Log messages of libraries while the API server restarts add nothing.
	logf.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the process without a report. Within a second it is the same signal: timeout(1) sends it to the process
	// and to its group.
	const same = time.Second
	context.AfterFunc(ctx, func() { time.AfterFunc(same, stop) })
	err := command.New().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(command.ExitCode(err))
	}
}
