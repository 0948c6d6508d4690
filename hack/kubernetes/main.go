// Command kubernetes makes the folder with Kubernetes' programs that tests and the demo run. It builds
// one binary from the module in kubernetes/ and links each program to it. Programs that the user has
// already, in the folder of the flag -existing, are linked instead of built. The folder serves as
// KUBEBUILDER_ASSETS.
//
// When nothing has changed it does nothing. When it fails or is interrupted, the folder stays as it
// was, and the next build continues with the packages in Go's build cache.
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
	existing := flag.String("existing", "", "folder with programs that are not built")
	flag.Parse()

	runtime.LockOSThread() // see diesWithParent
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *source, *output, *existing)
	interrupted := ctx.Err() != nil
	stop()
	if err != nil {
		if interrupted {
			err = errors.New("interrupted; the folder is unchanged, and compiled packages stay in the cache for the next 'make kubernetes'")
		}
		fmt.Fprintf(os.Stderr, "make kubernetes: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, source, output, existing string) error {
	output, err := filepath.Abs(output)
	if err != nil {
		return err
	}
	build := &build{
		source:   source,
		output:   output,
		existing: existing,
		progress: &progress{out: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd()))},
	}
	return build.run(ctx)
}
