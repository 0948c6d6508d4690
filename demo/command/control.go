package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/up"
	"github.com/ringmaster-project/ringmaster/demo/view"
)

// newProcessCommands returns the commands about one process.
func newProcessCommands() []*cobra.Command {
	return []*cobra.Command{
		newKill(),
		newProcessCommand(control.Stop, "Stop a process of the demo (SIGTERM)",
			`Stop an instance of the operator, or a replica of the sharder, with SIGTERM. An instance hands its
websites over before it exits. The process stays stopped until 'ringmaster demo resume' or
'ringmaster demo scale'.`),
		newProcessCommand(control.Pause, "Pause a process of the demo (SIGSTOP)",
			`Pause an instance of the operator, or a replica of the sharder, with SIGSTOP, as if it hung. When its
Lease has expired, its websites are assigned to the other instances. 'ringmaster demo resume' resumes
the process.`),
		newProcessCommand(control.Resume, "Resume a paused or stopped process of the demo (SIGCONT)",
			`Resume a paused process with SIGCONT, or start a process that was stopped or killed. An instance that
was paused for longer than its Lease lasts exits without another write, and is restarted.`),
	}
}

func newKill() *cobra.Command {
	kill := newProcessCommand(control.Kill, "Kill a process of the demo (SIGKILL)",
		`Kill an instance of the operator, or a replica of the sharder, with SIGKILL. The process is restarted
under its name after a delay. The default delay is long enough for its Lease to expire and its
websites to move to the other instances. With --away 0s it is restarted at once, as a kubelet
restarts a container, and keeps its websites.`)
	kill.Example = `  # Kill an instance, and watch its websites move to the others
  ringmaster demo kill webhosting-operator-1

  # Restart it at once, as a kubelet restarts a container
  ringmaster demo kill webhosting-operator-1 --away 0s`
	kill.Flags().Duration("away", view.Away, "how long the process stays down before it is restarted")
	return kill
}

func newScale() *cobra.Command {
	return newNumberCommand(control.Scale, "Scale the operator of the demo",
		`Run the instances 0 to NUMBER-1 of the operator, including those that were stopped or killed, and
stop all others. An instance hands its websites over before it exits.`, "5")
}

func newWebsites() *cobra.Command {
	return newNumberCommand(control.Websites, "Create websites until NUMBER exist",
		`Create websites in the sample projects until NUMBER websites exist. Existing websites are kept.`, "500")
}

func newRestart() *cobra.Command {
	return newGlobalCommand(control.Restart, "Restart all members of the etcd cluster of the demo",
		`Change an argument of the members in the EtcdClusters of all regions, so that all members have to be
restarted. In global mode one operator restarts all of them, the leader last.`)
}

func newReplace() *cobra.Command {
	return newGlobalCommand(control.Replace, "Replace a member of every region of the etcd cluster of the demo",
		`Replace one member of every region. A new member joins before the old one is removed. In global mode
one operator replaces all of them, the leader last.`)
}

// newProcessCommand returns a command about one process.
func newProcessCommand(name, short, long string) *cobra.Command {
	const arg = "PROCESS"
	example := "ringmaster demo " + name + " webhosting-operator-1"
	return newControlCommand(controlCommand{
		use: name + " " + arg, short: short, long: long, example: example,
		args: func(command *cobra.Command, args []string, dir string) error {
			switch len(args) {
			case 0:
				return fmt.Errorf("%s is missing, as in '%s'; %s", arg, example, availableProcesses(command.Context(), dir))
			case 1:
				return nil
			}
			return fmt.Errorf("%d arguments given, want one %s, as in '%s'", len(args), arg, example)
		},
		request: func(command *cobra.Command, args []string) (control.Request, error) {
			request := control.Request{Command: name, Name: args[0]}
			if command.Flags().Lookup("away") == nil {
				return request, nil
			}
			var err error
			if request.Away, err = command.Flags().GetDuration("away"); err == nil && request.Away < 0 {
				err = fmt.Errorf("--away %s is negative: it must be 0s or more", request.Away)
			}
			return request, err
		},
	})
}

// availableProcesses lists the processes of the demo for an error message, or says why that is not
// possible.
func availableProcesses(ctx context.Context, dir string) string {
	found, err := up.Find(dir)
	if err != nil {
		return err.Error()
	}
	processes, err := control.Processes(ctx, found.Socket)
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, process := range processes {
		names = append(names, process.Name)
	}
	return "available: " + strings.Join(names, ", ")
}

// newNumberCommand returns a command with a number.
func newNumberCommand(name, short, long, number string) *cobra.Command {
	const arg = "NUMBER"
	example := "ringmaster demo " + name + " " + number
	return newControlCommand(controlCommand{
		use: name + " " + arg, short: short, long: long, example: example,
		args: func(_ *cobra.Command, args []string, _ string) error {
			switch len(args) {
			case 0:
				return fmt.Errorf("%s is missing, as in '%s'", arg, example)
			case 1:
				return nil
			}
			return fmt.Errorf("%d arguments given, want one %s, as in '%s'", len(args), arg, example)
		},
		request: func(_ *cobra.Command, args []string) (control.Request, error) {
			count, err := strconv.Atoi(args[0])
			if err != nil || count < 0 {
				return control.Request{}, fmt.Errorf("%q is not a valid %s: it must be 0 or more, as in '%s'", args[0], arg, example)
			}
			return control.Request{Command: name, Count: count}, nil
		},
	})
}

// newGlobalCommand returns a command about all regions, which takes no argument.
func newGlobalCommand(name, short, long string) *cobra.Command {
	return newControlCommand(controlCommand{
		use: name, short: short, long: long, example: "ringmaster demo " + name,
		args: func(_ *cobra.Command, args []string, _ string) error {
			if len(args) > 0 {
				return errors.New("the command takes no argument, because it changes all regions: " +
					"to change one region, edit its EtcdCluster with kubectl")
			}
			return nil
		},
		request: func(*cobra.Command, []string) (control.Request, error) { return control.Request{Command: name}, nil },
	})
}

// controlCommand describes a command that sends a request to the running demo.
type controlCommand struct {
	use, short, long, example string
	// args validates the arguments. dir is the value of --data-dir.
	args    func(command *cobra.Command, args []string, dir string) error
	request func(command *cobra.Command, args []string) (control.Request, error)
}

func newControlCommand(c controlCommand) *cobra.Command {
	dir := ""
	command := &cobra.Command{
		Use:     c.use,
		Short:   c.short,
		Long:    c.long,
		Example: "  " + c.example,
		Args:    func(command *cobra.Command, args []string) error { return c.args(command, args, dir) },
		RunE: func(command *cobra.Command, args []string) error {
			request, err := c.request(command, args)
			if err != nil {
				return err
			}
			found, err := up.Find(dir)
			if err != nil {
				return err
			}
			return control.Send(command.Context(), found.Socket, request, func(message string) {
				fmt.Fprintln(command.OutOrStdout(), message)
			})
		},
	}
	addDataDir(command, &dir)
	return command
}

func addDataDir(command *cobra.Command, dir *string) {
	command.Flags().StringVar(dir, "data-dir", "",
		"data folder of the demo (default: that of the only demo that runs without a --data-dir)")
}
