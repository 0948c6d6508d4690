//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/machine"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/record"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/steps"
)

// stopTimeout is how long the node may take to end its pods and programs.
const stopTimeout = 90 * time.Second

type downOptions struct {
	*options
	logs  string
	steps *steps.Printer
}

func newDown(shared *options) *cobra.Command {
	o := &downOptions{options: shared, steps: steps.New(os.Stdout, time.Now)}
	command := &cobra.Command{
		Use:   "down",
		Short: "Stop the node, if it runs, and remove all that is left of it",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	command.Flags().StringVar(&o.logs, "logs", "", "a folder to copy the node's logs to before they are removed")
	return command
}

func (o *downOptions) run(ctx context.Context) error {
	if err := machine.CheckRoot(); err != nil {
		return err
	}
	unlock, err := lock(ctx, o.folder)
	switch {
	case errors.Is(err, errGone):
		return o.sweep(record.Record{})
	case err != nil:
		return err
	}
	defer unlock()
	node, err := record.Read(o.folder.Record())
	if err != nil {
		return err
	}
	if node.Alive() {
		if err := o.stop(ctx, node); err != nil {
			return err
		}
	}
	if o.logs != "" {
		if err := keepLogs(o.folder, o.logs); err != nil {
			return fmt.Errorf("keeping the logs: %w", err)
		}
		o.steps.Say("The node's logs are in %s.", o.logs)
	}
	return o.sweep(node)
}

// stop ends the node in good order, and by force when that takes too long.
func (o *downOptions) stop(ctx context.Context, node record.Record) error {
	o.steps.Say("Stopping the node, process %d.", node.PID)
	said, err := newTail(o.folder.Log("node"), os.Stdout)
	if err != nil {
		return err
	}
	defer said.Close()
	if err := said.skip(); err != nil {
		return err
	}
	if err := send(node, syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for node.Alive() {
		if err := said.copy(); err != nil {
			return err
		}
		if wait(ctx) != nil {
			o.steps.Say("  The node does not end by itself: killing it.")
			return kill(node)
		}
	}
	return said.copy()
}

// sweep removes what the kernel does not remove by itself, and proves that nothing is left.
func (o *downOptions) sweep(node record.Record) error {
	machine.AllowServices()
	if err := machine.RemoveCgroup(o.folder.Cgroup()); err != nil {
		return err
	}
	// Before the folder goes, and with it the knowledge of what to look for.
	if left := machine.Processes(o.folder, node); len(left) > 0 {
		return fmt.Errorf("the node has ended, but these processes are left; end them and run 'down' again:\n  %s", strings.Join(left, "\n  "))
	}
	if err := o.removeFolder(); err != nil {
		return err
	}
	left, err := machine.Leftovers(o.folder)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("the node is down, but this is left of it; remove it by hand:\n  %s", strings.Join(left, "\n  "))
	}
	o.steps.Say("The node is down. No process, mount, network device, cgroup or file of it is left.")
	return nil
}

func (o *downOptions) removeFolder() error {
	if _, err := os.Lstat(string(o.folder)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := ours(o.folder); err != nil {
		return fmt.Errorf("%s is not removed, because it may be somebody's: %w", o.folder, err)
	}
	return os.RemoveAll(string(o.folder))
}
