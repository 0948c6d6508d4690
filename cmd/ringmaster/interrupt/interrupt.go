// Package interrupt stops a command on signals: the first one cancels a context, so that the command can clean up;
// the second one ends the process at once.
package interrupt

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Context returns a context that the first signal cancels. The second signal ends the process. Both also work if the
// parent ignores SIGINT, as shells do for background processes of scripts.
func Context() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go wait(receive(), cancel)
	return ctx
}

func receive() <-chan os.Signal {
	wanted := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		wanted = append(wanted, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, wanted...)
	return signals
}

func wait(signals <-chan os.Signal, cancel context.CancelFunc) {
	<-signals
	cancel()
	second := <-signals
	fmt.Fprintln(os.Stderr, "Ending at once.")
	code := 128 // and the signal's number, as shells do
	if number, isNumber := second.(syscall.Signal); isNumber {
		code += int(number)
	}
	os.Exit(code)
}
