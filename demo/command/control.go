package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/up"
	"github.com/ringmaster-project/ringmaster/demo/view"
)

// newControl returns the commands for what 'ringmaster up' runs.
func newControl() []*cobra.Command {
	kill := forInstance(control.Kill, "Kill an instance of what is up (SIGKILL)",
		`Ends an instance, or a replica of the sharder, at once, without a chance to do anything
about it. It is started again under its name after it was away for a while: by default
long enough for its Lease to run out and its websites to go to the others. With --away 0s
it comes back as a container does that a kubelet restarts, and keeps its websites.`)
	away := kill.Flags().Duration("away", view.Away, "how long it stays away")
	send := kill.RunE
	kill.RunE = func(command *cobra.Command, args []string) error {
		if *away < 0 {
			return fmt.Errorf("--away %s is in the past: choose 0s or more", *away)
		}
		return send(command, args)
	}
	return []*cobra.Command{
		forNumber(control.Scale, "NUMBER", "Run another number of instances of what is up",
			`Makes instances 0 to NUMBER-1 run, also those that were stopped, and no others: one that
is too many is asked to stop, and hands its websites over before it does.`, "ringmaster demo scale 5"),
		kill,
		forInstance(control.Stop, "Stop an instance of what is up (SIGTERM)",
			`Asks an instance, or a replica of the sharder, to end. An instance hands its websites over
before it does. It stays away until 'ringmaster demo resume' or 'ringmaster demo scale'.`),
		forInstance(control.Pause, "Pause an instance of what is up (SIGSTOP)",
			`Stops an instance, or a replica of the sharder, where it is, as if it hung. When its Lease
has run out, its websites go to the others. It goes on with 'ringmaster demo resume'.`),
		forInstance(control.Resume, "Let an instance go on that was paused or stopped (SIGCONT)",
			`Lets an instance, or a replica of the sharder, go on that was paused, and starts one that
was stopped or killed. One that was paused for longer than its Lease lasts ends by itself
without having done anything more, and is started again.`),
		forNumber(control.Websites, "NUMBER", "Create websites on what is up until there are so many",
			`Creates websites in the sample projects until there are NUMBER. It deletes none.`, "ringmaster demo websites 500"),
		forAll(control.Restart, "Let all members of the etcd cluster that is up be restarted",
			`Gives the EtcdClusters of all regions another argument for their members, which have to be
restarted for it: in global mode by one operator for all, the leader last.`),
		forAll(control.Replace, "Let a member of every region of the etcd cluster that is up be replaced",
			`Gives up one member of every region. A new one joins before the old one goes: in global
mode one operator does it for all, the leader last.`),
	}
}

// forInstance is a command about one process.
func forInstance(name, short, long string) *cobra.Command {
	return controlCommand(name, instance, short, long, "ringmaster demo "+name+" webhosting-operator-1",
		func(command *cobra.Command, arg string) (control.Request, error) {
			request := control.Request{Command: name, Name: arg}
			if away := command.Flags().Lookup("away"); away != nil {
				request.Away, _ = time.ParseDuration(away.Value.String()) // it is a duration
			}
			return request, nil
		})
}

// forAll is a command that needs to be told nothing.
func forAll(name, short, long string) *cobra.Command {
	command := controlCommand(name, "", short, long, "ringmaster demo "+name, func(*cobra.Command, string) (control.Request, error) {
		return control.Request{Command: name}, nil
	})
	command.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("it is about all regions, and %q is one too many: for one region, change its EtcdCluster with kubectl", args[0])
		}
		return nil
	}
	return command
}

// forNumber is a command with a number.
func forNumber(name, arg, short, long, example string) *cobra.Command {
	return controlCommand(name, arg, short, long, example, func(_ *cobra.Command, arg string) (control.Request, error) {
		number, err := strconv.Atoi(arg)
		if err != nil || number < 0 {
			return control.Request{}, invalidNumber(arg, example)
		}
		return control.Request{Command: name, Count: number}, nil
	})
}

func controlCommand(name, arg, short, long, example string, parse func(*cobra.Command, string) (control.Request, error)) *cobra.Command {
	dir := ""
	command := &cobra.Command{
		Use:     strings.TrimSpace(name + " " + arg),
		Short:   short,
		Long:    long,
		Example: "  " + example,
		Args: func(command *cobra.Command, args []string) error {
			return oneArgument(command.Context(), args, arg, example, dir)
		},
		RunE: func(command *cobra.Command, args []string) error {
			request, err := parse(command, strings.Join(args, " "))
			if err != nil {
				return err
			}
			found, err := up.Find(dir)
			if err != nil {
				return err
			}
			return control.Ask(command.Context(), found.Socket, request, func(said string) {
				fmt.Fprintln(command.OutOrStdout(), said)
			})
		},
	}
	command.Flags().StringVar(&dir, "data-dir", "", "data folder of the 'ringmaster up' that is meant (default: the only one without a --data-dir)")
	return command
}
