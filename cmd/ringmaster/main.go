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
	ctx, cancel := context.WithCancel(context.Background())
	go heed(listen(), cancel)
	if err := app.As(os.Args[0]).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// listen begins to receive signals that ask for an end.
func listen() <-chan os.Signal {
	wanted := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		wanted = append(wanted, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, wanted...)
	return signals
}

// heed waits for signals. The first one asks for an end in good order. The second one ends the process at once,
// and with it everything that it started; also where the signal would be ignored by itself, as Ctrl-C's is in
// a process that a script has put into the background.
func heed(signals <-chan os.Signal, end context.CancelFunc) {
	<-signals
	end()
	second := <-signals
	fmt.Fprintln(os.Stderr, "Ending at once.")
	code := 128 // and the signal's number, as shells count
	if number, is := second.(syscall.Signal); is {
		code += int(number)
	}
	os.Exit(code)
}
