// Command kubernetes builds the folder with Kubernetes' programs that tests and the demo run: one
// binary from the module in kubernetes/, and a link to it for each program. The folder serves as
// KUBEBUILDER_ASSETS.
//
// When nothing has changed it does nothing. Interrupted or failed, it leaves the folder as it was;
// what was compiled by then is kept in Go's build cache, so the next try goes on from there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/term"
)

func main() {
	source := flag.String("source", "kubernetes", "folder with the module to build")
	output := flag.String("o", "bin/kubernetes", "folder to build into")
	flag.Parse()

	runtime.LockOSThread() // see diesWithUs
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *source, *output)
	interrupted := ctx.Err() != nil
	stop()
	if err != nil {
		if interrupted {
			err = errors.New("interrupted; nothing was changed, and what was compiled is kept for the next 'make kubernetes'")
		}
		fmt.Fprintf(os.Stderr, "make kubernetes: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, source, output string) error {
	output, err := filepath.Abs(output)
	if err != nil {
		return err
	}
	build := &build{
		source: source,
		output: output,
		shown:  &progress{out: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd()))},
	}
	return build.run(ctx)
}
