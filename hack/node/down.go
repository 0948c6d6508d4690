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

	"github.com/ringmaster-project/ringmaster/hack/node/internal/host"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/pidfile"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/progress"
)

// stopTimeout is the timeout for the end of the node's pods and programs.
const stopTimeout = 90 * time.Second

type downOptions struct {
	*options
	logs     string
	progress *progress.Printer
}

func newDown(shared *options) *cobra.Command {
	o := &downOptions{options: shared, progress: progress.New(os.Stdout, time.Now)}
	command := &cobra.Command{
		Use:   "down",
		Short: "Stop the node, and remove its files and cgroups",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	command.Flags().StringVar(&o.logs, "logs", "", "folder to copy the node's logs to before they are removed")
	return command
}

func (o *downOptions) run(ctx context.Context) error {
	if err := host.CheckRoot(); err != nil {
		return err
	}
	unlock, err := lock(ctx, o.folder)
	switch {
	case errors.Is(err, errGone):
		return o.sweep(pidfile.Info{})
	case err != nil:
		return err
	}
	defer unlock()
	node, err := pidfile.Read(o.folder.PIDFile())
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
		o.progress.Printf("The node's logs are in %s.", o.logs)
	}
	return o.sweep(node)
}

// stop ends the node gracefully, and kills it after a timeout.
func (o *downOptions) stop(ctx context.Context, node pidfile.Info) error {
	o.progress.Printf("Stopping the node, process %d.", node.PID)
	output, err := newTail(o.folder.Log("node"), os.Stdout)
	if err != nil {
		return err
	}
	defer output.Close()
	if err := output.skip(); err != nil {
		return err
	}
	if err := send(node, syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for node.Alive() {
		if err := output.copy(); err != nil {
			return err
		}
		if wait(ctx) != nil {
			o.progress.Printf("  The node did not end within the timeout: killing it.")
			return kill(node)
		}
	}
	return output.copy()
}

// sweep removes the resources that outlive the processes, and checks that none remains.
func (o *downOptions) sweep(node pidfile.Info) error {
	host.AllowServices()
	if err := host.RemoveCgroup(o.folder.Cgroup()); err != nil {
		return err
	}
	// Before the folder is removed, because it identifies the processes.
	if left := host.Processes(o.folder, node); len(left) > 0 {
		return fmt.Errorf("the node has ended, but these processes still run; end them and run 'down' again:\n  %s", strings.Join(left, "\n  "))
	}
	if err := o.removeFolder(); err != nil {
		return err
	}
	left, err := host.Leftovers(o.folder)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("the node has ended, but these remain; remove them manually:\n  %s", strings.Join(left, "\n  "))
	}
	o.progress.Printf("The node is down; no process, mount, network device, cgroup or file of it remains.")
	return nil
}

func (o *downOptions) removeFolder() error {
	if _, err := os.Lstat(string(o.folder)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := isClaimed(o.folder); err != nil {
		return fmt.Errorf("%s is not removed, because it may have other files: %w", o.folder, err)
	}
	return os.RemoveAll(string(o.folder))
}
